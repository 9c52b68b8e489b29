"""Counting an optimised module by hand-made text: loops, slices, convolutions that are matrix products, collectives."""

import re

import pytest

from spicejax.flight import hlo

MODULE = """HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%fused (param_0: bf16[4,64,32], param_1: s32[]) -> bf16[64,32] {
  %param_0 = bf16[4,64,32]{2,1,0:T(8,128)(2,1)} parameter(0)
  %param_1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %slice = bf16[1,64,32]{2,1,0} dynamic-slice(%param_0, %param_1, %zero, %zero), dynamic_slice_sizes={1,64,32}
  ROOT %cast = bf16[64,32]{1,0} bitcast(%slice)
}

%condition (c: (s32[], bf16[8,64], bf16[4,64,32])) -> pred[] {
  %c = (s32[], bf16[8,64]{1,0}, bf16[4,64,32]{2,1,0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %n = s32[] constant(4)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}

%body (p: (s32[], bf16[8,64], bf16[4,64,32])) -> (s32[], bf16[8,64], bf16[4,64,32]) {
  %p = (s32[], bf16[8,64]{1,0}, bf16[4,64,32]{2,1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = bf16[8,64]{1,0} get-tuple-element(%p), index=1
  %w = bf16[4,64,32]{2,1,0} get-tuple-element(%p), index=2
  %layer = bf16[64,32]{1,0:T(8,128)(2,1)S(1)} fusion(%w, %i), kind=kLoop, calls=%fused
  %y = bf16[8,32]{1,0:S(1)} convolution(%x, %layer), dim_labels=bf_io->bf
  %all-gather.1 = bf16[8,64]{1,0} all-gather(%y), replica_groups=mesh['a'=2,'b'=4] {'a'}, dimensions={1}
  ROOT %out = (s32[], bf16[8,64]{1,0}, bf16[4,64,32]{2,1,0}) tuple(%i, %all-gather.1, %w)
}

ENTRY %main (x: bf16[8,64], w: bf16[4,64,32]) -> f32[16] {
  %x = bf16[8,64]{1,0} parameter(0)
  %w = bf16[4,64,32]{2,1,0} parameter(1)
  %zero = s32[] constant(0)
  %start = (s32[], bf16[8,64]{1,0}, bf16[4,64,32]{2,1,0}) tuple(%zero, %x, %w)
  %loop = (s32[], bf16[8,64]{1,0}, bf16[4,64,32]{2,1,0}) while(%start), condition=%condition, body=%body
  %v = f32[16]{0} custom-call(), custom_call_target="made"
  ROOT %all-reduce.1 = f32[16]{0} all-reduce(%v), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
}
"""


def test_a_loop_counts_as_often_as_it_runs():
    cost = hlo.cost(MODULE)
    assert cost.flops == 4 * 2 * 8 * 64 * 32
    gather, reduce = hlo.Collective("all-gather", 2, (8, 64)), hlo.Collective("all-reduce", 4, (16,))
    assert cost.wire == {gather: 4 * 8 * 64 * 2 / 2, reduce: 2 * 16 * 4 * 3 / 4}
    # A trip reads one layer of the stack (the copy in vector memory is free), its index and x, and writes x gathered.
    assert cost.bytes == 4 * (64 * 32 * 2 + 4 + 8 * 64 * 2 + 8 * 64 * 2) + 16 * 4 + 2 * 16 * 4


def test_a_loop_unrolled_by_two_runs_half_as_often():
    step = "%two = s32[] constant(2)\n  %next = s32[] add(%i, %two)\n  ROOT %out"
    text = MODULE.replace("ROOT %out", step).replace("tuple(%i, %all-gather.1", "tuple(%next, %all-gather.1")
    assert hlo.cost(text).flops == hlo.cost(MODULE).flops / 2


def test_elements_of_tuples_may_be_written_as_operands():
    """As newer texts have them: %tuple#index, without an instruction of their own; a tuple may lie in a tuple."""
    blocks = MODULE.split("\n\n")
    for k, block in enumerate(blocks):
        for name, source, index in re.findall(r"\n  %(\S+) = [^\n]* get-tuple-element\(%(\S+)\), index=(\d)", block):
            without = re.sub(rf"\n  %{name} = [^\n]*", "", block, count=1)
            block = re.sub(rf"%{name}(?=[,)])", f"%{source}#{index}", without)
        blocks[k] = block
    text = "\n\n".join(blocks)
    assert "%p#1, %layer" in text and text.count("get-tuple-element") < MODULE.count("get-tuple-element")
    assert hlo.cost(text) == hlo.cost(MODULE)
    nested = """ENTRY %main (p: (s32[], (f32[8], bf16[4,2]))) -> bf16[4,2] {
  %p = (s32[], (f32[8]{0}, /*index=1*/bf16[4,2]{1,0})) parameter(0)
  ROOT %copy = bf16[4,2]{1,0} copy(%p#1#1)
}"""
    assert hlo.cost(nested).bytes == 2 * 16


def test_a_loop_without_a_constant_bound_takes_the_given_trips():
    text = MODULE.replace("%n = s32[] constant(4)", "%n = s32[] get-tuple-element(%c), index=0")
    assert hlo.cost(text, dynamic_trips=(10,)).flops == 10 / 4 * hlo.cost(MODULE).flops


def test_loops_inside_loops_take_their_own_trips():
    text = MODULE.replace("%n = s32[] constant(4)", "%n = s32[] get-tuple-element(%c), index=0")
    outer = """
%outer (o: (s32[], bf16[8,64], bf16[4,64,32])) -> (s32[], bf16[8,64], bf16[4,64,32]) {
  %o = (s32[], bf16[8,64]{1,0}, bf16[4,64,32]{2,1,0}) parameter(0)
  ROOT %inner = (s32[], bf16[8,64]{1,0}, bf16[4,64,32]{2,1,0}) while(%o), condition=%condition, body=%body
}

ENTRY"""
    nested = text.replace("\nENTRY", outer).replace("while(%start), condition=%condition, body=%body",
                                                   "while(%start), condition=%condition, body=%outer")  # fmt: skip
    one = hlo.cost(text, dynamic_trips=(1,)).flops
    assert hlo.cost(nested, dynamic_trips=(3, 5)).flops == 15 * one
    assert hlo.cost(nested, dynamic_trips=(3,)).flops == 9 * one


def test_a_slice_of_what_is_converted_reads_the_slice():
    text = """
%inside (p: s8[4,64,32], i: s32[]) -> bf16[1,64,32] {
  %p = s8[4,64,32]{2,1,0} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %wide = bf16[4,64,32]{2,1,0} convert(%p)
  ROOT %part = bf16[1,64,32]{2,1,0} dynamic-slice(%wide, %i, %zero, %zero), dynamic_slice_sizes={1,64,32}
}

ENTRY %main (w: s8[4,64,32], k: s32[]) -> bf16[1,64,32] {
  %w = s8[4,64,32]{2,1,0} parameter(0)
  %k = s32[] parameter(1)
  ROOT %layer = bf16[1,64,32]{2,1,0} fusion(%w, %k), kind=kLoop, calls=%inside
}
"""
    assert hlo.cost(text).bytes == 64 * 32 * 1 + 4 + 64 * 32 * 2, "8-bit entries in, 16-bit entries out"


def test_a_conversion_alone_reads_all_it_converts():
    text = """
%nested (q: f32[64,32]) -> bf16[64,32] {
  %q = f32[64,32]{1,0} parameter(0)
  ROOT %narrow = bf16[64,32]{1,0} convert(%q)
}

%inside (p: f32[64,32]) -> bf16[64,32] {
  %p = f32[64,32]{1,0} parameter(0)
  ROOT %made = bf16[64,32]{1,0} fusion(%p), kind=kLoop, calls=%nested
}

ENTRY %main (x: f32[64,32]) -> bf16[64,32] {
  %x = f32[64,32]{1,0} parameter(0)
  ROOT %out = bf16[64,32]{1,0} fusion(%x), kind=kLoop, calls=%WHICH
}
"""
    for which in ("inside", "nested"):
        assert hlo.cost(text.replace("WHICH", which)).bytes == 64 * 32 * (4 + 2)


def test_new_tiles_before_a_slice_cost_the_slice_and_other_copies_all():
    text = """
%tiles (t: s8[4,64,32]) -> s8[4,64,32] {
  %t = s8[4,64,32]{2,1,0:T(32,128)(4,1)} parameter(0)
  ROOT %copy.1 = s8[4,64,32]{2,1,0:T(8,128)(4,1)} copy(%t)
}

%inside (p: s8[4,64,32], i: s32[]) -> s8[1,64,32] {
  %p = s8[4,64,32]{2,1,0:T(32,128)(4,1)} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %again = s8[4,64,32]{2,1,0:T(8,128)(4,1)} fusion(%p), kind=kLoop, ALIASED calls=%tiles
  ROOT %part = s8[1,64,32]{2,1,0} dynamic-slice(%again, %i, %zero, %zero), dynamic_slice_sizes={1,64,32}
}

ENTRY %main (w: s8[4,64,32], k: s32[]) -> s8[1,64,32] {
  %w = s8[4,64,32]{2,1,0:T(32,128)(4,1)} parameter(0)
  %k = s32[] parameter(1)
  ROOT %layer = s8[1,64,32]{2,1,0} fusion(%w, %k), kind=kLoop, calls=%inside
}
"""
    renamed = text.replace("ALIASED ", "").replace("} copy(%t)", "} bitcast(%t)")
    assert hlo.cost(renamed).bytes == 2 * 64 * 32 + 4
    aliased = text.replace("ALIASED", "output_to_operand_aliasing={{}: (0, {})},")
    assert hlo.cost(aliased).bytes == 2 * 64 * 32 + 4
    assert hlo.cost(text.replace("ALIASED ", "")).bytes == (4 + 1) * 64 * 32 + 4


@pytest.mark.parametrize(("left", "right", "out", "attributes", "flops"), [
    # x [16, 512, 32] times w [32, 4, 128] as XLA:TPU writes it: the heads are a reversed, padded window.
    ((16, 512, 32, 1), (1, 32, 4, 128), (16, 512, 4, 128),
     "window={size=1x4 pad=0_0x3_3 rhs_reversal=0x1}, dim_labels=0bf1_0i1o->0b1f", 2 * 16 * 512 * 32 * 4 * 128),
    # A batch of 2 x 2 products [512, 128] x [128, 512], the batch dimensions dilated.
    ((2, 2, 512, 128), (2, 2, 512, 128), (2, 2, 512, 512),
     "window={size=2x2 stride=1x1 lhs_dilate=2x2}, dim_labels=01bf_01oi->01bf", 2 * 4 * 512 * 512 * 128),
])  # fmt: skip
def test_matrix_products_in_the_clothes_of_convolutions(left, right, out, attributes, flops):
    assert hlo._convolution_flops(left, right, out, attributes) == flops


def test_a_collective_that_runs_under_several_fusions_counts_once():
    start = (
        '%all-gather.9 = bf16[8,64]{1,0} all-gather(%y), replica_groups=[1,2]<=[2], frontend_attributes={chain_id="0"}'
    )
    computation = (
        "%{name} (y: bf16[8,32]) -> bf16[8,64] {{\n  %y = bf16[8,32]{{1,0}} parameter(0)\n  {start}\n{more}}}\n"
    )
    more = '  ROOT %s = bf16[8,64]{1,0} custom-call(%all-gather.9), custom_call_target="AsyncCollectiveStart"\n'
    text = "HloModule m\n" + computation.format(name="first", start=start, more=more)
    text += computation.format(name="second", start="ROOT " + start, more="")
    text += "ENTRY %main (y: bf16[8,32]) -> bf16[8,64] {\n  %y = bf16[8,32]{1,0} parameter(0)\n"
    text += "  %a = bf16[8,64]{1,0} fusion(%y), kind=kCustom, calls=%first\n"
    text += "  ROOT %b = bf16[8,64]{1,0} fusion(%y), kind=kCustom, calls=%second\n}\n"
    assert hlo.cost(text).wire == {hlo.Collective("all-gather", 2, (8, 64)): 8 * 64 * 2 / 2}


def test_a_kernel_costs_what_it_states_or_what_the_caller_knows():
    call = '%k = f32[16]{0} custom-call(%x), custom_call_target="tpu_custom_call", metadata={op_name="a/splash_fwd"}'
    text = f"HloModule m\nENTRY %main (x: f32[16]) -> f32[16] {{\n  %x = f32[16]{{0}} parameter(0)\n  ROOT {call}\n}}\n"
    assert hlo.cost(text).unknown == {"a/splash_fwd": 1} and hlo.cost(text).flops == 0
    known = hlo.cost(text, kernels=lambda name, operands: 7.0 if (name, operands) == ("k", [(16,)]) else None)
    assert known.flops == 7 and not known.unknown
    stated = text.replace("op_name=", 'x="y"}, backend_config={"cost_estimate":{"flops":"42"}}, metadata={op_name=')
    assert hlo.cost(stated).flops == 42


def test_a_product_of_cublas_costs_its_multiply_adds_and_not_the_room_it_works_in():
    call = """
  %left = bf16[4,8,64]{2,1,0} parameter(0)
  %right = bf16[4,64,32]{2,1,0} parameter(1)
  ROOT %call = (bf16[4,8,32]{2,1,0}, s8[33554432]{0}) custom-call(%left, %right), custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["2"],"rhs_contracting_dimensions":["1"],"lhs_batch_dimensions":["0"],"rhs_batch_dimensions":["0"]}}}
"""  # noqa: E501
    cost = hlo.cost("HloModule m\n\nENTRY %main (a: bf16[4,8,64]) -> bf16[4,8,32] {" + call + "}\n")
    assert cost.flops == 2 * 4 * 8 * 64 * 32
    assert cost.bytes == 2 * 4 * (8 * 64 + 64 * 32 + 8 * 32)
    assert not cost.unknown
