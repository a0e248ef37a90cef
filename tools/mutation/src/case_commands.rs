//! The commands of mutants: every subcommand, with flags that may have an effect there.
//!
//! Limits that a user could set high (samples, steps, tries) are small here: a mutant that is slow
//! regardless is a failure. Files are written under fixed names into the directory of the case, and
//! no shell commands run.

use crate::case::{Case, Sources, files_of};
use crate::chance::Chance;
use crate::seeds::{LitCommand, some};
use crate::tensor_files;
use jitopt_archive::stored_zip;

/// The relative frequency of each subcommand.
const COMMANDS: &[(&str, usize)] = &[
    ("", 46),
    ("run", 16),
    ("profile", 4),
    ("validate", 8),
    ("bisect", 2),
    ("reduce", 2),
    ("smith", 1),
    ("diff", 5),
    ("lint", 4),
    ("explain", 3),
    ("bench", 1),
    ("extract", 5),
    ("samples", 1),
    ("test", 1),
    ("filecheck", 4),
    ("completions", 1),
];

/// A new command on new files.
pub(crate) fn new(sources: &Sources, chance: &mut Chance) -> Case {
    let total = COMMANDS.iter().map(|(_, weight)| weight).sum();
    let mut left = chance.below(total);
    let drawn = COMMANDS.iter().find(|(_, weight)| {
        let hit = left < *weight;
        left = left.saturating_sub(*weight);
        hit
    });
    let name = drawn.map_or("", |(name, _)| *name);
    let mut made = Making { sources, chance, case: Case::default() };
    made.word("jitopt");
    if !name.is_empty() {
        made.word(name);
    }
    made.subcommand(name);
    made.case
}

/// The command of a lit file, on that file.
pub(crate) fn of_lit(command: &LitCommand, chance: &mut Chance) -> Case {
    let (mut words, files) = files_of(command);
    words.insert(0, "jitopt".to_owned());
    words.retain(|word| {
        !word.contains("--backend=cpu") && !word.starts_with("--max-tries") && !word.starts_with("--runs")
    });
    let limits: &[&str] = match words.get(1).map(String::as_str) {
        Some("run" | "profile") => &["--timeout=2"],
        Some("validate" | "bisect") => &["--timeout=1"],
        Some("reduce") => &["--max-tries=10", "--timeout=1"],
        Some("bench") => &["--runs=1", "--backend=interp"],
        _ => &[],
    };
    let is_new = |limit: &&&str| !words.iter().any(|word| word.starts_with(limit.split('=').next().unwrap_or(limit)));
    let limits: Vec<String> = limits.iter().filter(is_new).map(|limit| (*limit).to_owned()).collect();
    words.extend(limits);
    let verifies =
        words.get(1).is_some_and(|word| ["run", "validate", "bisect", "reduce"].contains(&&**word) || word == "in.ir");
    if verifies && !words.iter().any(|word| word == "--no-verify") && chance.one_in(3) {
        words.push("--no-verify".to_owned());
    }
    Case { argv: words, files, ..Case::default() }
}

struct Making<'a> {
    sources: &'a Sources,
    chance: &'a mut Chance,
    case: Case,
}

impl Making<'_> {
    fn word(&mut self, word: impl Into<String>) {
        self.case.argv.push(word.into());
    }

    fn one_of(&mut self, words: &[&str]) {
        let word = self.chance.pick(words);
        self.word(word);
    }

    /// Adds each of these words once in `n` times.
    fn maybe(&mut self, n: usize, words: &[&str]) {
        for word in words {
            if self.chance.one_in(n) {
                self.word(*word);
            }
        }
    }

    fn file(&mut self, name: &str, bytes: Vec<u8>) {
        self.case.files.insert(name.to_owned(), bytes);
    }

    fn graph(&mut self, name: &str) {
        let text = some(&self.sources.seeds.graphs, self.chance);
        self.file(name, text);
    }

    /// Adds the input graph of a command.
    fn input(&mut self) {
        self.graph("in.ir");
        self.word("in.ir");
    }

    fn passes(&mut self, n: usize) {
        if self.chance.one_in(n) {
            let text = self.sources.passes.some(self.chance);
            self.word(format!("--passes={text}"));
        }
    }

    fn subcommand(&mut self, name: &str) {
        match name {
            "" => self.optimise(),
            "run" => self.run(),
            "profile" => self.profile(),
            "validate" => self.validate(),
            "bisect" => {
                self.input();
                self.passes(1);
                self.judge();
            }
            "reduce" => {
                self.input();
                self.passes(1);
                self.word("--max-tries=10");
                self.judge();
            }
            "smith" => self.smith(),
            "diff" => self.diff(),
            "lint" => {
                self.input();
                self.maybe(4, &["--json", "--torch=1.3", "--torch=2.15", "--only=no-such-lint"]);
            }
            "explain" => {
                self.input();
                self.passes(3);
                self.maybe(5, &["--torch=1.3", "--torch=2.15"]);
            }
            "bench" => self.bench(),
            "extract" => self.extract(),
            "filecheck" => self.filecheck(),
            "samples" => self.maybe(2, &["lstm_cell", "no_such_sample"]),
            "test" => self.lit_test(),
            _ => self.one_of(&["bash", "zsh", "fish", "powershell", "elvish", "tcsh"]),
        }
    }

    fn optimise(&mut self) {
        self.input();
        self.passes(1);
        self.maybe(2, &["--no-verify"]);
        self.maybe(
            12,
            &["--split-input-file", "--canonical", "--verify-roundtrip", "--print-alias", "--no-verify-each"],
        );
        self.maybe(
            20,
            &["--remarks", "--remarks=json", "--stats", "--stats=json", "--time-passes=trace", "--print-pipeline"],
        );
        self.maybe(30, &["--print-changed", "--print-changed=diff", "--print-changed=word", "--print-after-all"]);
        self.maybe(
            30,
            &["--type-verbosity=0", "--type-verbosity=4", "--print-as=1.3", "--print-as=2", "--report=page.html"],
        );
        self.maybe(
            40,
            &["--transform-cache=memory", "--transform-cache=kept", "--print-tree-dir=tree", "--log=>dce:fuser"],
        );
        self.maybe(40, &["--torch=1.0.1", "--torch=2.15", "--disable=dce", "--debug-counter=dce.nodes-erased=1"]);
        self.maybe(
            40,
            &["--print-mutations", "--schema=my::op(Tensor(a!) x) -> Tensor(a!)", "--schema=my::f(Tensor x -> ("],
        );
        self.maybe(60, &["--validate", "--validate=pass", "--validate=rewrite"]);
        if self.chance.one_in(4) {
            let form = self.chance.pick(&["python", "code", "dot", "c", "fusion-candidates", "types"]);
            self.word(format!("--emit={form}"));
        }
        self.description(15);
        self.shape(15);
        self.callee(15);
        if self.chance.one_in(20) {
            self.profile_file("--profile=seen.prof");
        }
    }

    fn description(&mut self, n: usize) {
        if self.chance.one_in(n) {
            let text = some(&self.sources.seeds.documents, self.chance);
            self.file("args.json", text);
            self.word("--args=args.json");
            self.maybe(2, &["--specialize=sizes"]);
        }
    }

    fn shape(&mut self, n: usize) {
        if self.chance.one_in(n) {
            let name = self.chance.pick(&["%x", "%y", "%0", "%x.1", "%input", "%", "x"]);
            let sizes = self.chance.pick(&[
                "2,3",
                "",
                "0",
                "4",
                "-1",
                "1000000000000",
                "9223372036854775808",
                "2,x",
                "3,3,3,3,3,3,3",
            ]);
            self.word(format!("--shape={name}={sizes}"));
        }
    }

    fn callee(&mut self, n: usize) {
        if self.chance.one_in(n) {
            self.graph("callee.ir");
            self.one_of(&["--callee=f=callee.ir", "--callee=forward=callee.ir", "--callee=callee.ir", "--callee=a=b"]);
        }
    }

    fn profile_file(&mut self, flag: &str) {
        let text = some(&self.sources.seeds.profiles, self.chance);
        self.file("seen.prof", text);
        self.word(flag);
    }

    fn tensors(&mut self, flag: &str) {
        match self.chance.below(4) {
            0 => {
                let bytes = tensor_files::npy(self.chance);
                self.file("given.npy", bytes);
                self.word(format!("{flag}given.npy"));
            }
            1 => {
                let name = self.chance.pick(&["in0.npy", "x.npy", "0.npy", "a/b.npy"]);
                let bytes = stored_zip(&[(name.to_owned(), tensor_files::npy(self.chance))]);
                self.file("given.npz", bytes);
                self.word(format!("{flag}given.npz"));
            }
            _ => {
                let bytes = some(&self.sources.seeds.tensors, self.chance);
                let ending = if bytes.starts_with(b"PK") {
                    "npz"
                } else if bytes.starts_with(b"\x93") {
                    "npy"
                } else {
                    "safetensors"
                };
                self.file(&format!("given.{ending}"), bytes);
                self.word(format!("{flag}given.{ending}"));
            }
        }
    }

    fn run_flags(&mut self) {
        self.input();
        self.maybe(1, &["--timeout=1", "--max-steps=3000"]);
        self.maybe(2, &["--no-verify", "--seed=1"]);
        self.maybe(
            6,
            &[
                "--f64",
                "--style=adversarial",
                "--style=aliased",
                "--style=tiny",
                "--fill-unknown",
                "--fill-unknown=zeros:x",
            ],
        );
        self.maybe(10, &["--torch=1.0.1", "--torch=1.6", "--torch=2.15", "--trace-bailouts", "--stats=json"]);
        self.passes(4);
        self.shape(3);
        self.callee(15);
        self.description(3);
        if self.chance.one_in(3) {
            self.tensors("--inputs=");
        }
        if self.chance.one_in(8) {
            let name = self.chance.pick(&["%x", "%1", "%self", "%self.w", "%prim::fork_0/%v", "%l[1]", "%"]);
            match self.chance.one_in(2) {
                true => self.tensors(&format!("--bind={name}=")),
                false => {
                    let value = self.chance.pick(&[
                        "[1, 2]",
                        "{\"a\": 1}",
                        "1e999",
                        "[[[[",
                        "9223372036854775808",
                        "(1, 2",
                        "\"\\777",
                    ]);
                    self.word(format!("--bind={name}={value}"));
                }
            }
        }
    }

    fn run(&mut self) {
        self.run_flags();
        self.maybe(
            8,
            &[
                "--steps",
                "--assert-finite",
                "--coverage",
                "--outputs=out.safetensors",
                "--outputs=out.npz",
                "--grads=-",
            ],
        );
        self.maybe(
            30,
            &["--rtol=nan", "--rtol=1e-3", "--record-profile=new.prof", "--style=", "--seed=18446744073709551615"],
        );
        for flag in ["--expect=", "--expect=%1=", "--grad-outputs=", "--replay=%1="] {
            if self.chance.one_in(20) {
                self.tensors(flag);
            }
        }
    }

    fn profile(&mut self) {
        self.run_flags();
        self.word("-o");
        self.word("new.prof");
        if self.chance.one_in(3) {
            self.profile_file("--merge-profile=seen.prof");
        }
    }

    fn judge(&mut self) {
        self.maybe(1, &["--samples=2", "--max-steps=2000", "--timeout=1"]);
        self.maybe(2, &["--no-verify"]);
        self.maybe(10, &["--fill-unknown", "--signed-zero", "--overflow-is-large", "--rtol=0", "--torch=1.3"]);
        self.shape(5);
        self.callee(20);
        self.description(12);
        if self.chance.one_in(12) {
            self.tensors("--inputs=");
        }
    }

    fn validate(&mut self) {
        self.input();
        if self.chance.one_in(5) {
            self.graph("other.ir");
            self.word("other.ir");
        } else {
            self.passes(1);
        }
        self.judge();
        self.maybe(6, &["--each=pass", "--each=rewrite", "--per-node", "--repro-dir=."]);
    }

    fn smith(&mut self) {
        let seed = self.chance.draw() >> self.chance.below(64);
        self.word(format!("--seed={seed}"));
        self.maybe(2, &["--count=2", "--nodes=5", "--nodes=0", "--depth=0", "--depth=5"]);
        self.passes(3);
    }

    fn diff(&mut self) {
        self.input();
        if self.chance.one_in(3) {
            self.passes(1);
        } else {
            self.word("other.ir");
            let mut text = self.case.files["in.ir"].clone();
            if self.chance.one_in(3) {
                text = some(&self.sources.seeds.graphs, self.chance);
            }
            self.file("other.ir", text);
        }
        self.maybe(4, &["--json", "--ignore-types"]);
    }

    fn bench(&mut self) {
        self.input();
        self.passes(1);
        self.maybe(1, &["--runs=1", "--backend=interp", "--seed=1"]);
        self.maybe(3, &["--json"]);
        self.shape(3);
    }

    fn extract(&mut self) {
        let text = some(&self.sources.seeds.logs, self.chance);
        let graph = some(&self.sources.seeds.graphs, self.chance);
        let log = match self.chance.below(4) {
            0 => text,
            1 => graph,
            2 => prefixed(&graph),
            _ => [text, prefixed(&graph)].concat(),
        };
        let name = if self.chance.one_in(2) { "in.log" } else { "-" };
        self.file(name, log);
        self.word(name);
        self.maybe(3, &["--list", "--keep-duplicates", "--number=1", "--number=0", "--output-dir=graphs"]);
    }

    fn filecheck(&mut self) {
        self.graph("checks.ir");
        self.graph("in.ir");
        if self.chance.one_in(2) {
            let text = self.case.files["checks.ir"].clone();
            self.file("in.ir", text);
        }
        self.word("checks.ir");
        self.word("--input-file=in.ir");
        self.maybe(
            3,
            &["--pytorch", "--strict-whitespace", "--match-full-lines", "--allow-empty", "--check-prefix=RUN"],
        );
        self.maybe(6, &["--check-prefixes=A,B", "--check-prefix=", "--check-prefix=CHECK", "--no-such-flag"]);
    }

    fn lit_test(&mut self) {
        self.graph("in.ir");
        self.word("in.ir");
    }
}

/// A graph as PyTorch logs it.
fn prefixed(graph: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(graph);
    text.lines().map(|line| format!("[DUMP dead_code_elimination.cpp:042] {line}\n")).collect::<String>().into_bytes()
}
