//! PTX: what instructions compute, by values that its documentation gives or that follow from it,
//! and what is reported of launches that are wrong.

use super::ptx::{Bytes, Fault, Launch, PtxModule, Region};
use std::cell::Cell;

/// An entry with the addresses of an operand of four elements of 64 bits, and of a result.
fn module(body: &str) -> PtxModule {
    let text = format!(
        ".version 6.3\n.target sm_75\n.address_size 64\n
.visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u64 k_param_1\n)\n.maxntid 64, 1, 1\n{{
    .reg .pred %p<9>;\n    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [k_param_0];
    ld.param.u64 %rd2, [k_param_1];\n{body}\n    ret;\n}}\n"
    );
    PtxModule::read(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

/// Runs it. Returns the result, and what is wrong.
fn run(body: &str, operand: [u64; 4], (blocks, threads, seed): (u32, u32, u32)) -> (Vec<u64>, Result<u64, Fault>) {
    let (mut module, operand): (_, Vec<u8>) = (module(body), operand.iter().flat_map(|x| x.to_le_bytes()).collect());
    module.most_steps = 100_000;
    let result = vec![Cell::new(0_u8); 8 * 128];
    let regions = [
        Region { bytes: Bytes::Fixed(&operand), address: 0x1000 },
        Region { bytes: Bytes::Written(&result), address: 0x2000 },
    ];
    let parameters: Vec<u8> =
        regions.iter().enumerate().flat_map(|(at, region)| region.address(at).to_le_bytes()).collect();
    let launch = Launch { parameters: &parameters, blocks, threads, seed };
    let ran = module.run(module.entry("k").expect("it is there"), launch, &regions);
    let bytes: Vec<u8> = result.iter().map(Cell::get).collect();
    (bytes.chunks(8).map(|x| x.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))).collect(), ran)
}

/// The content of `%d` after a statement, with its operands in `%a`, `%b` and `%c`.
fn computed(statement: &str, operands: [u64; 3]) -> u64 {
    let [a, b, c] = operands;
    let body = format!(
        "ld.global.u64 %a, [%rd1];\nld.global.u64 %b, [%rd1+8];\nld.global.u64 %c, [%rd1+16];\n{statement}
st.global.u64 [%rd2], %d;"
    );
    let (result, ran) = run(&body, [a, b, c, 0], (1, 1, 0));
    ran.unwrap_or_else(|fault| panic!("{statement}: {fault:?}"));
    result[0]
}

const MINUS_ONE: u64 = u64::MAX;
const INFINITY: u64 = 0x7f80_0000;
const NAN: u64 = 0x7fc0_0000;

/// The bits of a float, and of a double.
const fn f(x: f32) -> u64 {
    x.to_bits() as u64
}

const fn d(x: f64) -> u64 {
    x.to_bits()
}

/// Statements, their operands, and as many low bits of the result as matter.
const INTEGERS: [(&str, [u64; 3], u32, u64); 44] = [
    ("add.s32 %d, %a, %b;", [0xffff_ffff, 2, 0], 32, 1),
    ("add.s64 %d, %a, -4;", [3, 0, 0], 64, MINUS_ONE),
    ("sub.s32 %d, %a, %b;", [1, 2, 0], 32, 0xffff_ffff),
    ("mul.lo.s32 %d, %a, %b;", [0x1_0001, 0x1_0001, 0], 32, 0x2_0001),
    ("mul.hi.u32 %d, %a, %b;", [0xffff_ffff, 0xffff_ffff, 0], 32, 0xffff_fffe),
    ("mul.hi.s32 %d, %a, %b;", [0xffff_ffff, 2, 0], 32, 0xffff_ffff),
    ("mul.hi.u64 %d, %a, %b;", [MINUS_ONE, MINUS_ONE, 0], 64, MINUS_ONE - 1),
    ("mul.wide.u32 %d, %a, %b;", [0xffff_ffff, 2, 0], 64, 0x1_ffff_fffe),
    ("mul.wide.s32 %d, %a, %b;", [0xffff_ffff, 2, 0], 64, MINUS_ONE - 1),
    ("mad.lo.s32 %d, %a, %b, %c;", [3, 4, 0xffff_ffff], 32, 11),
    ("mad.wide.u32 %d, %a, %b, %c;", [0x8000_0000, 2, 1], 64, 0x1_0000_0001),
    ("div.s32 %d, %a, %b;", [0xffff_fff9, 2, 0], 32, 0xffff_fffd),
    ("div.u32 %d, %a, %b;", [0xffff_fff9, 2, 0], 32, 0x7fff_fffc),
    ("rem.s32 %d, %a, %b;", [0xffff_fff9, 2, 0], 32, 0xffff_ffff),
    ("rem.u64 %d, %a, %b;", [17, 5, 0], 64, 2),
    ("min.s32 %d, %a, %b;", [0xffff_ffff, 1, 0], 32, 0xffff_ffff),
    ("min.u32 %d, %a, %b;", [0xffff_ffff, 1, 0], 32, 1),
    ("max.s16 %d, %a, %b;", [0xffff, 1, 0], 16, 1),
    ("neg.s32 %d, %a;", [1, 0, 0], 32, 0xffff_ffff),
    ("abs.s64 %d, %a;", [MINUS_ONE, 0, 0], 64, 1),
    ("and.b32 %d, %a, %b;", [12, 10, 0], 32, 8),
    ("or.b32 %d, %a, %b;", [12, 10, 0], 32, 14),
    ("xor.b32 %d, %a, %b;", [12, 10, 0], 32, 6),
    ("not.b32 %d, %a;", [12, 0, 0], 32, 0xffff_fff3),
    ("shl.b32 %d, %a, %b;", [3, 31, 0], 32, 0x8000_0000),
    ("shl.b32 %d, %a, %b;", [3, 32, 0], 32, 0),
    ("shr.s32 %d, %a, %b;", [0x8000_0000, 31, 0], 32, 0xffff_ffff),
    ("shr.s32 %d, %a, %b;", [0x8000_0000, 99, 0], 32, 0xffff_ffff),
    ("shr.u32 %d, %a, %b;", [0x8000_0000, 32, 0], 32, 0),
    ("shr.u64 %d, %a, 63;", [1 << 63, 0, 0], 64, 1),
    ("clz.b32 %d, %a;", [1, 0, 0], 32, 31),
    ("popc.b64 %d, %a;", [MINUS_ONE, 0, 0], 32, 64),
    ("brev.b32 %d, %a;", [1, 0, 0], 32, 0x8000_0000),
    ("bfe.u32 %d, %a, 4, 8;", [0x1234_5678, 0, 0], 32, 0x67),
    ("bfe.s32 %d, %a, 4, 8;", [0x1234_5ff8, 0, 0], 32, 0xffff_ffff),
    ("bfi.b32 %d, %a, %b, 8, 4;", [0xff, 0, 0], 32, 0xf00),
    ("bfi.b64 %d, %a, %b, 32, 32;", [7, 9, 0], 64, 0x7_0000_0009),
    ("prmt.b32 %d, %a, %b, 0x9374;", [0x3322_1100, 0x7766_5544, 0], 32, 0x0033_7744),
    ("shf.l.wrap.b32 %d, %a, %b, 8;", [0x1122_3344, 0x5566_7788, 0], 32, 0x6677_8811),
    ("shf.r.wrap.b32 %d, %a, %b, 8;", [0x1122_3344, 0x5566_7788, 0], 32, 0x8811_2233),
    ("selp.b32 %d, %a, %b, %c;", [5, 6, 1], 32, 5),
    (
        "{ .reg .b32 low, high; mov.b64 {low, high}, %a; mov.b64 %d, {high, low}; }",
        [0x1_0000_0002, 0, 0],
        64,
        0x2_0000_0001,
    ),
    ("cvt.s64.s8 %d, %a;", [0x80, 0, 0], 64, MINUS_ONE - 127),
    ("cvt.u64.u16 %d, %a;", [0x1_8000, 0, 0], 64, 0x8000),
];

const FLOATS: [(&str, [u64; 3], u32, u64); 40] = [
    ("add.rn.f32 %d, %a, %b;", [f(1.0), f(1e-8), 0], 32, f(1.0)),
    ("sub.f32 %d, %a, %b;", [f(1.0), f(3.0), 0], 32, f(-2.0)),
    ("sub.rn.f32 %d, %a, %b;", [INFINITY, INFINITY, 0], 32, 0x7fff_ffff),
    ("mul.rn.f64 %d, %a, %b;", [d(0.1), d(3.0), 0], 64, d(0.1 * 3.0)),
    ("div.rn.f32 %d, %a, %b;", [f(1.0), f(3.0), 0], 32, 0x3eaa_aaab),
    ("rcp.rn.f64 %d, %a;", [d(3.0), 0, 0], 64, 0x3fd5_5555_5555_5555),
    // The product has 47 bits, of which the sum leaves the lowest.
    ("fma.rn.f32 %d, %a, %b, %c;", [0x3f80_0001, 0x3f80_0001, 0xbf80_0002], 32, f(1.0 / (1u64 << 46) as f32)),
    ("sqrt.rn.f32 %d, %a;", [f(2.0), 0, 0], 32, 0x3fb5_04f3),
    ("neg.f32 %d, %a;", [0, 0, 0], 32, 0x8000_0000),
    ("abs.f64 %d, %a;", [d(-2.5), 0, 0], 64, d(2.5)),
    ("copysign.f32 %d, %a, %b;", [f(-1.0), f(2.0), 0], 32, f(-2.0)),
    ("min.f32 %d, %a, %b;", [NAN, f(2.0), 0], 32, f(2.0)),
    ("max.f32 %d, %a, %b;", [f(2.0), NAN, 0], 32, f(2.0)),
    ("max.f32 %d, %a, %b;", [0x8000_0000, 0, 0], 32, 0),
    ("min.f64 %d, %a, %b;", [0, 1 << 63, 0], 64, 1 << 63),
    ("cvt.f64.f32 %d, %a;", [f(0.5), 0, 0], 64, d(0.5)),
    ("cvt.rn.f32.f64 %d, %a;", [d(0.1), 0, 0], 32, f(0.1)),
    ("cvt.f32.f16 %d, %a;", [0x0001, 0, 0], 32, f(5.960_464_5e-8)),
    ("cvt.rn.f16.f32 %d, %a;", [f(65519.0), 0, 0], 16, 0x7bff),
    ("cvt.rn.f16.f32 %d, %a;", [f(65520.0), 0, 0], 16, 0x7c00),
    ("cvt.rn.f16.f32 %d, %a;", [0x7f80_0001, 0, 0], 16, 0x7fff),
    ("cvt.rn.bf16.f32 %d, %a;", [0x3f80_8000, 0, 0], 16, 0x3f80),
    ("cvt.rn.f32.s64 %d, %a;", [(1 << 25) + 3, 0, 0], 32, f(33_554_436.0)),
    ("cvt.rn.f64.u32 %d, %a;", [0xffff_ffff, 0, 0], 64, d(4_294_967_295.0)),
    ("cvt.rn.f32.s32 %d, %a;", [0xffff_ffff, 0, 0], 32, f(-1.0)),
    ("cvt.rzi.s32.f32 %d, %a;", [f(-1.9), 0, 0], 32, 0xffff_ffff),
    ("cvt.rzi.s32.f32 %d, %a;", [f(3e9), 0, 0], 32, 0x7fff_ffff),
    ("cvt.rzi.s32.f32 %d, %a;", [NAN, 0, 0], 32, 0),
    ("cvt.rzi.s64.f64 %d, %a;", [d(f64::NAN), 0, 0], 64, 1 << 63),
    ("cvt.rzi.u32.f32 %d, %a;", [f(-1.0), 0, 0], 32, 0),
    ("cvt.rni.f32.f32 %d, %a;", [f(2.5), 0, 0], 32, f(2.0)),
    ("cvt.rmi.f64.f64 %d, %a;", [d(-1.5), 0, 0], 64, d(-2.0)),
    ("cvt.rpi.f32.f32 %d, %a;", [f(1.25), 0, 0], 32, f(2.0)),
    ("cvt.rzi.f32.f32 %d, %a;", [f(-1.25), 0, 0], 32, f(-1.0)),
    ("cvt.sat.f32.f32 %d, %a;", [f(1.5), 0, 0], 32, f(1.0)),
    ("ex2.approx.f32 %d, %a;", [f(0.5), 0, 0], 32, 0x3fb5_04f3),
    ("ex2.approx.ftz.f32 %d, %a;", [f(-140.0), 0, 0], 32, 0),
    ("lg2.approx.f32 %d, %a;", [f(8.0), 0, 0], 32, f(3.0)),
    ("rsqrt.approx.f32 %d, %a;", [f(4.0), 0, 0], 32, f(0.5)),
    ("div.full.f32 %d, %a, %b;", [f(1.0), f(4.0), 0], 32, f(0.25)),
];

#[test]
fn instructions_compute_as_documented() {
    for (statement, operands, bits, expected) in INTEGERS.into_iter().chain(FLOATS) {
        let found = computed(statement, operands) & (u64::MAX >> (64 - bits));
        assert_eq!(found, expected, "{statement} of {operands:x?} is {found:#x}, not {expected:#x}");
    }
}

#[test]
fn comparisons_know_nan_and_signs() {
    // Of 1 and 2, of 2 and 2, of NaN and 2.
    let relations = [
        ("eq", [0, 1, 0]),
        ("ne", [1, 0, 0]),
        ("lt", [1, 0, 0]),
        ("le", [1, 1, 0]),
        ("gt", [0, 0, 0]),
        ("ge", [0, 1, 0]),
        ("equ", [0, 1, 1]),
        ("neu", [1, 0, 1]),
        ("ltu", [1, 0, 1]),
        ("leu", [1, 1, 1]),
        ("gtu", [0, 0, 1]),
        ("geu", [0, 1, 1]),
        ("num", [1, 1, 0]),
        ("nan", [0, 0, 1]),
    ];
    for (relation, expected) in relations {
        let statement = format!("setp.{relation}.f32 %p1, %a, %b;\nselp.u64 %d, 1, 0, %p1;");
        let found = [f(1.0), f(2.0), NAN].map(|a| computed(&statement, [a, f(2.0), 0]));
        assert_eq!(found, expected, "{relation}");
    }
    // Of -1 and 1, as signed integers and as others.
    let integers =
        [("lt.s32", 1), ("lt.u32", 0), ("gt.s64", 0), ("hi.u64", 1), ("ge.u32", 1), ("le.s32", 1), ("ne.s32", 1)];
    for (relation, expected) in integers {
        let statement = format!("setp.{relation} %p1, %a, %b;\nselp.u64 %d, 1, 0, %p1;");
        assert_eq!(computed(&statement, [MINUS_ONE, 1, 0]), expected, "{relation}");
    }
    let both = "setp.eq.s32 %p2, %c, 0;\nsetp.lt.and.s32 %p1, %a, %b, %p2;\nselp.u64 %d, 1, 0, %p1;";
    assert_eq!([0, 1].map(|c| computed(both, [1, 2, c])), [1, 0]);
}

#[test]
fn guards_and_loops_are_executed() {
    let total = "mov.u64 %d, 0;\n$L1:\nadd.s64 %d, %d, %a;\nadd.s64 %a, %a, -1;\nsetp.ne.s64 %p1, %a, 0;
@%p1 bra $L1;\n@!%p1 add.s64 %d, %d, 100;\n@%p1 add.s64 %d, %d, 1000;";
    assert_eq!(computed(total, [4, 0, 0]), 110);
}

#[test]
fn vectors_constants_and_memory_of_threads_are_read_and_written() {
    let text = "ld.global.v2.u64 {%a, %b}, [%rd1+16];\nst.local.v2.u64 [own], {%b, %a};\nmov.u64 %c, own;
cvta.local.u64 %c, %c;\nld.u64 %d, [%c];\nld.s8 %c, [%c+8];\nst.global.v2.u64 [%rd2], {%d, %c};\n.local .align 16 .b8 own[16];";
    let (result, ran) = run(text, [0, 0, 0xff, 7], (1, 1, 0));
    assert_eq!((&result[..2], ran.is_ok()), (&[7, MINUS_ONE][..], true));
    let text = ".global .align 4 .u32 table[3] = {5, 6, 7};\n.visible .entry k(.param .u64 k_0)\n{\nmov.u64 %a, table;
ld.global.u32 %b, [%a+8];\nld.param.u64 %c, [k_0];\nst.global.u32 [%c], %b;\n}\n";
    let (module, result) = (PtxModule::read(text).expect("it is read"), [(); 4].map(|()| Cell::new(0)));
    let regions = [Region { bytes: Bytes::Written(&result), address: 0 }];
    let parameters = regions[0].address(0).to_le_bytes();
    let launch = Launch { parameters: &parameters, blocks: 1, threads: 1, seed: 0 };
    module.run(0, launch, &regions).expect("it runs");
    assert_eq!(result[0].get(), 7);
}

/// Each thread writes its number into shared memory, and reads that of another one.
const EXCHANGE: &str = ".shared .align 4 .b8 all[256];
mov.u32 %t, %tid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %base, all;\nshl.b32 %own, %t, 2;\nadd.s32 %own, %base, %own;
st.shared.u32 [%own], %t;\n.loc 1 77 3\nbar.sync 0;\nsub.s32 %o, %n, %t;\nadd.s32 %o, %o, -1;\nshl.b32 %other, %o, 2;
add.s32 %other, %base, %other;\nld.shared.u32 %v, [%other];\nmul.wide.u32 %at, %t, 8;\nadd.s64 %at, %rd2, %at;
cvt.u64.u32 %v, %v;\nst.global.u64 [%at], %v;";

#[test]
fn threads_meet_at_barriers_in_every_order() {
    for seed in 0..4 {
        let (result, ran) = run(EXCHANGE, [0; 4], (1, 64, seed));
        ran.expect("it runs");
        assert_eq!(result[..64], (0..64).rev().collect::<Vec<u64>>(), "seed {seed}");
    }
    let (result, _) = run(&EXCHANGE.replace("bar.sync 0;", ""), [0; 4], (1, 64, 0));
    assert_ne!(result[0], 63, "without a barrier nothing is there yet");
}

#[test]
fn lanes_shuffle() {
    let ways = [
        ("bfly.b32 %v|%p1, %t, 1, 31", [1, 0, 3, 2], [1, 1, 1, 1]),
        ("down.b32 %v|%p1, %t, 2, 31", [2, 3, 4, 5], [1, 1, 1, 1]),
        // Segments of four lanes, clamped to their own.
        ("down.b32 %v|%p1, %t, 2, 0x1c03", [2, 3, 2, 3], [1, 1, 0, 0]),
        ("up.b32 %v|%p1, %t, 1, 0", [0, 0, 1, 2], [0, 1, 1, 1]),
        ("idx.b32 %v|%p1, %t, 3, 31", [3, 3, 3, 3], [1, 1, 1, 1]),
    ];
    for (way, values, came) in ways {
        let text = format!(
            "mov.u32 %t, %tid.x;\nshfl.sync.{way}, -1;\nselp.u64 %c, 1, 0, %p1;\nmul.wide.u32 %at, %t, 16;
add.s64 %at, %rd2, %at;\ncvt.u64.u32 %v, %v;\nst.global.v2.u64 [%at], {{%v, %c}};"
        );
        let (result, ran) = run(&text, [0; 4], (1, 32, 3));
        ran.expect("it runs");
        let found: Vec<(u64, u64)> = result.chunks(2).take(4).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!(found, std::iter::zip(values, came).collect::<Vec<_>>(), "{way}");
    }
}

/// The error in a launch of two warps.
fn fault(body: &str) -> Fault {
    run(body, [0; 4], (1, 64, 0)).1.expect_err(body)
}

#[test]
fn wrong_launches_are_reported() {
    let wrong = [
        ("ld.global.u64 %a, [%rd1+32];", "outside of the memory of an operand"),
        ("ld.global.u64 %a, [%rd1+-8];", "outside of the memory of an operand"),
        ("mov.u64 %a, 0;\nld.global.u64 %a, [%a];", "outside of every operand"),
        ("ld.global.u64 %a, [%rd1+4];", "that its size does not divide"),
        ("ld.global.v2.u64 {%a, %b}, [%rd1+8];", "that its size does not divide"),
        ("st.global.u64 [%rd1], %a;", "writes an operand"),
        ("ld.param.u64 %a, [k_param_1+8];", "outside of the parameters"),
        ("st.local.u64 [own+8], %a;\n.local .b64 own;", "outside of the memory of a thread"),
        ("st.shared.u64 [all+8], %a;\n.shared .b64 all;\n.shared .b64 more;", "outside of every shared array"),
        ("$L1:\nbra $L1;", "has not ended after"),
        (
            "mov.u32 %a, %tid.x;\nsetp.eq.s32 %p1, %a, 9;\n@%p1 bra $L1;\nbar.sync 0;\n$L1:",
            "waits at a barrier, and thread 9 has ended",
        ),
        (
            "mov.u32 %a, %tid.x;\nsetp.eq.s32 %p1, %a, 9;\n@%p1 bra $L1;\nbar.sync 0;\nret;\n$L1:\nbar.sync 0;",
            "waits at a barrier, and thread 9 at another one",
        ),
        (
            "mov.u32 %a, %tid.x;\nsetp.eq.s32 %p1, %a, 9;\n@%p1 bra $L1;\nshfl.sync.idx.b32 %b, %a, 0, 31, -1;\n$L1:",
            "waits for thread 9 of its warp",
        ),
    ];
    for (body, expected) in wrong {
        let fault = fault(body);
        assert!(fault.why.contains(expected), "{body}: {fault:?}");
    }
    let fault = fault(&EXCHANGE.replace("ld.shared.u32 %v, [%other]", "ld.shared.u32 %v, [%other+4]"));
    assert_eq!((fault.thread, fault.origin), (0, 77), "{fault:?}");
}

#[test]
fn text_that_is_not_known_is_refused_with_its_line() {
    let refused = |body: &str| {
        let text = format!(".visible .entry k()\n{{\n{body}\n}}\n");
        PtxModule::read(&text).expect_err(body)
    };
    assert_eq!(
        refused("atom.global.add.u32 %a, [%b], 1;"),
        "PTX line 3: the instruction `atom.global.add.u32` is not known"
    );
    assert!(refused("add.ftz.f32 %a, %b, %c;").contains("`add.ftz.f32` is not known"));
    assert!(refused("fma.rn.f32 %a, %b, %c;").contains("is not known"));
    assert!(refused("bra $L9;").contains("there is no label $L9"));
    assert!(refused("mov.u32 %a, %clock.hi;").contains("the register `%clock.hi` is not known"));
    assert_eq!(refused("add.s32 %a, %b, %c"), "PTX line 4: `}` stands where `,` is expected");
    assert!(PtxModule::read(".func f()\n{\n}\n").expect_err("functions").contains("`.func` is not known"));
}
