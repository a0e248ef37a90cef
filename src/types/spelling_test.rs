//! Types are read as they are printed, in the spelling of each release.

use super::*;

/// Texts of §1.3 of the format notes, as PyTorch 1.0 to 2.15 printed them.
const PRINTED: &[&str] = &[
    "Tensor",
    "Float(*, *)",
    "Float(2, 3)",
    "Float()",
    "Float(requires_grad=0, device=cpu)",
    "FloatTensor",
    "string",
    "(string, string[], Dict[str, int], string?)",
    "Float(2, 3, strides=[3, 1], requires_grad=0, device=cuda:0)",
    "Float(2, *)",
    "Float(*, 3, device=cpu)",
    "Tensor(requires_grad=0)",
    "Tensor(device=cpu)",
    "Tensor(requires_grad=1, device=cpu)",
    "Tensor(2, 3)",
    "Float(SS(-2), SS(-3))",
    "Tensor[Undefined]",
    "Tensor[Defined]",
    "Float(2, 3)[Defined]",
    "Float(*, *)[Undefined]",
    "AutogradZeroTensor",
    "UndefinedTensor",
    "Float(10:48, 8:6, 6:1)",
    "Float(2048!, 1000!)",
    "Float(2048, 1000!)",
    "int",
    "float",
    "bool",
    "str",
    "complex",
    "None",
    "NoneType",
    "Device",
    "Any",
    "number",
    "Scalar",
    "t",
    "t[]",
    "T1[]",
    "int?",
    "Tensor[]?",
    "Tensor?[]",
    "int[][]",
    "(Tensor, int)",
    "(int)",
    "()",
    "NamedTuple(x : Tensor, n : int = 3, name : str = cfg)",
    "Dict(str, Tensor)",
    "Future[Tensor]",
    "RRef[Tensor]",
    "Await(Tensor)",
    "Union(Tensor, int, str)",
    "Enum<__torch__.Color>",
    "InterfaceType<I>",
    "ClassType<M>",
    "__torch__.a.b.___torch_mangle_5.C",
    "Function",
    "Dynamic",
    "BFloat16(2)",
    "__torch__.torch.classes.quantized.Conv2dPackedParamsBase",
    "Float8_e4m3fn(2)",
    "Half(1, strides=[1])",
    "UNKNOWN_SCALAR(device=cpu)",
    "UNKNOWN_SCALARTensor",
    "Union[Tensor, int[], Union[str, NoneType]]",
    "Dict[str, Dict[int, List[Tensor]]]",
    "Dict[int, Optional[Tuple[int, List[str]]]]",
    "NamedTuple(x : Tensor, n : int = 3, s : str = cfg, (x), m : int = 2)",
    "ProfiledTensor(dtype = Float , shape = (2, 5, 7)",
    "ProfiledTensor(dtype = Long , shape = ()",
    "ProfiledTensor(dtype = Double , shape = (*)",
    "(ProfiledTensor(dtype = Bool , shape = (2, *), int)",
];

fn spelling(seen: &Seen) -> Spelling {
    Spelling {
        old_none: seen.old_none,
        dynamic: seen.dynamic,
        undefined: seen.undefined.unwrap_or(Undefined::Suffix),
        colon_strides: seen.colon_strides,
        square_unions: seen.square_unions,
        square_dicts: seen.square_dicts,
        string: seen.string,
        raw_strings: false,
        verbosity: None,
    }
}

#[test]
fn printed_types_round_trip() {
    for text in PRINTED.iter().filter(|t| **t != "T1[]") {
        let mut seen = Seen::default();
        let (ty, used) = parse(text.as_bytes(), &mut seen).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let mut out = Vec::new();
        print(&mut out, ty, &spelling(&seen));
        assert_eq!((String::from_utf8_lossy(&out).as_ref(), used), (*text, text.len()));
    }
}

#[test]
fn types_that_are_none_say_where_and_why() {
    for (text, at, says) in [
        ("Floot(2)", 0, "did you mean `Float`"),
        ("Float", 5, "expected sizes"),
        ("Float(2,", 8, "expected a size"),
        ("(int", 4, "expected `,` or `)`"),
        ("Float(2, strides=[1, 1])", 17, "2 strides for 1 sizes"),
        ("", 0, "expected a type"),
    ] {
        let error = parse_all(text.as_bytes()).expect_err(text);
        assert!(error.message.contains(says) && error.at == at, "{text}: {error:?}");
    }
}

#[test]
fn ten_thousand_levels_are_read_and_one_more_is_refused() {
    let run = || {
        let ok = format!("int{}", "[]".repeat(MAX_DEPTH - 1));
        assert_eq!(parse_all(ok.as_bytes()).map(|ty| ty.to_string()), Ok(ok));
        let nested = format!("{}int{}", "(".repeat(MAX_DEPTH - 1), ")".repeat(MAX_DEPTH - 1));
        assert_eq!(parse_all(nested.as_bytes()).map(|ty| ty.to_string()), Ok(nested));
        for deep in [format!("int{}", "[]".repeat(MAX_DEPTH)), "(".repeat(MAX_DEPTH * 10)] {
            assert!(parse_all(deep.as_bytes()).is_err());
        }
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).expect("a thread").join().expect("no overflow");
}

#[test]
fn verbosity_is_that_of_pytorch() {
    let ty = parse_all(b"Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)").expect("a type");
    let at = |verbosity| {
        let mut out = Vec::new();
        print(&mut out, ty, &Spelling { verbosity: Some(verbosity), ..Spelling::default() });
        String::from_utf8(out).expect("ascii")
    };
    assert_eq!(at(1), "Float(2, 3)");
    assert_eq!(at(2), "Float(2, 3, strides=[3, 1])");
    assert_eq!(at(3), ty.to_string());
}
