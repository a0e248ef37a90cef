//! The language that PyTorch's printer writes: a small part of Python.
//!
//! Operators are calls (`torch.add(x, 1)`), so that few kinds of expressions are left.

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Its start, in bytes.
    pub(crate) at: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Name(String),
    Int(i64),
    Float(f64),
    /// `2.j`
    Complex(f64, f64),
    Text(Vec<u8>),
    Bool(bool),
    None,
    /// `object.name`
    Attribute(Box<Expr>, String),
    Call(Box<Call>),
    /// `object[index]`
    Item(Box<Expr>, Box<Expr>),
    /// `object[from:to]`
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    /// `-x` of what is no literal number: `-inf`.
    Negative(Box<Expr>),
}

/// A call; `named` are the arguments after `name=`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Expr,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) named: Vec<(String, Expr)>,
}

impl Expr {
    /// The names of `a.b.c`.
    pub(crate) fn dotted(&self) -> Option<Vec<&str>> {
        match &self.kind {
            ExprKind::Name(name) => Some(vec![name]),
            ExprKind::Attribute(object, name) => {
                let mut names = object.dotted()?;
                names.push(name);
                Some(names)
            }
            _ => None,
        }
    }
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) struct Stmt {
    pub(crate) at: usize,
    pub(crate) kind: StmtKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    /// `a, b, = value`, or `a : T = value`.
    Assign {
        targets: Vec<Expr>,
        /// Whether the target is a tuple: a value is then unpacked, even into one target.
        unpacks: bool,
        declared: Option<Expr>,
        value: Expr,
    },
    Expr(Expr),
    If {
        condition: Expr,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    For {
        target: String,
        over: Expr,
        body: Vec<Stmt>,
    },
    While {
        condition: Expr,
        body: Vec<Stmt>,
    },
    With {
        objects: Vec<Expr>,
        body: Vec<Stmt>,
    },
    Return(Option<Expr>),
    Pass,
    /// A closure, `def __forked_function():`.
    Def(FunctionDef),
}

/// A function or a method.
#[derive(Clone, Debug)]
pub(crate) struct FunctionDef {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Option<Expr>,
    pub(crate) body: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) declared: Option<Expr>,
    pub(crate) default: Option<Expr>,
}

/// A class.
#[derive(Clone, Debug)]
pub(crate) struct ClassDef {
    pub(crate) name: String,
    /// `Module`, `NamedTuple`, `Enum`, `Interface`, `ModuleInterface`, or nothing.
    pub(crate) base: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) methods: Vec<FunctionDef>,
    /// Methods that Python calls before `forward` of the outermost module, `__forward_pre_hooks__`.
    pub(crate) before_forward: Vec<String>,
    /// Those that it calls after it, `__forward_hooks__`.
    pub(crate) after_forward: Vec<String>,
}

/// `name : T`, `name : Final[T] = value`, or `NAME = value` in an enum.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) declared: Option<Expr>,
    pub(crate) value: Option<Expr>,
}

/// The definitions of a file.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    Class(ClassDef),
    Function(FunctionDef),
}
