//! The declarations in the code of an archive: classes, functions, and the meaning of annotations.

use crate::printed_syntax::{ClassDef, Definition, Expr, ExprKind, Field, FunctionDef};
use crate::source_error::{Place, Record, Result, SourceError, fail};
use crate::statement_parser::parse;
use jitopt_archive::{CodeFile, LegacyClass};
use jitopt_core::symbol::Symbol;
use jitopt_core::types::{self, Simple, Type, TypeKind};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Parts of a type: named tuples in named tuples could otherwise grow without bound.
const MOST_PARTS: usize = 10_000;
/// The module of C++ classes of PyTorch.
const FOREIGN_CLASSES: &str = "__torch__.torch.classes.";
/// Classes whose fields are being read.
const DEEPEST: usize = 50;

/// A class, and where it is.
#[derive(Debug)]
pub(crate) struct DeclaredClass {
    pub(crate) def: ClassDef,
    pub(crate) record: Arc<Record>,
}

/// A function or a method, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callable<'c> {
    pub(crate) def: &'c FunctionDef,
    pub(crate) record: &'c Arc<Record>,
}

impl Callable<'_> {
    pub(crate) fn place(&self, at: usize) -> Place {
        Place { record: Arc::clone(self.record), at }
    }
}

/// The declarations of an archive by qualified name.
#[derive(Debug, Default)]
pub(crate) struct Declarations {
    classes: BTreeMap<String, DeclaredClass>,
    functions: BTreeMap<String, (FunctionDef, Arc<Record>)>,
    named_tuples: RefCell<HashMap<String, Type>>,
    /// Qualified names of interfaces: their types have the last part only.
    interfaces: HashMap<Symbol, String>,
    /// Named tuples that are being read.
    depth: RefCell<usize>,
}

impl Declarations {
    /// Reads all records.
    pub(crate) fn read(files: Vec<CodeFile>) -> Result<Declarations> {
        let mut declarations = Declarations::default();
        for file in files {
            let text = String::from_utf8(file.content).map_err(|_| SourceError::new("code is not UTF-8"))?;
            let record = Arc::new(Record::new(file.record, text, file.ranges));
            let whole = Place { record: Arc::clone(&record), at: 0 };
            for definition in parse(&record).map_err(|error| error.at(&whole))? {
                declarations.add(&file.module, &record, definition);
            }
        }
        Ok(declarations)
    }

    /// Adds a module of 1.0 to 1.2, whose methods are the functions of a file.
    pub(crate) fn add_module(&mut self, class: &LegacyClass, code: Option<CodeFile>) -> Result<()> {
        // Names may be numbers: they are put in afterwards.
        let fields = class.fields.iter().enumerate().map(|(number, (_, ty))| format!("  f{number} : {ty}\n"));
        let text = format!("class M(Module):\n{}", fields.collect::<String>());
        let header = Arc::new(Record::new(format!("model.json, module {}", class.name), text, Vec::new()));
        let mut def = match parse(&header)?.pop() {
            Some(Definition::Class(def)) => def,
            _ => return fail(format!("the module `{}` is no class", class.name)),
        };
        def.name.clone_from(&class.name);
        def.fields.iter_mut().zip(&class.fields).for_each(|(field, (name, _))| field.name.clone_from(name));
        def.fields.extend(class.modules.iter().map(|(name, class)| {
            let declared = Some(Expr { at: 0, kind: ExprKind::Name(class.clone()) });
            Field { at: 0, name: name.clone(), declared, value: None }
        }));
        let mut record = header;
        if let Some(code) = code {
            let text = String::from_utf8(code.content).map_err(|_| SourceError::new("code is not UTF-8"))?;
            record = Arc::new(Record::new(code.record, text, code.ranges));
            for definition in parse(&record)? {
                if let Definition::Function(method) = definition {
                    def.methods.push(method);
                }
            }
        }
        self.classes.insert(class.name.clone(), DeclaredClass { def, record });
        Ok(())
    }

    /// The reader of archives refuses definitions that are there twice.
    fn add(&mut self, module: &str, record: &Arc<Record>, definition: Definition) {
        let qualified = |name: &str| if module.is_empty() { name.to_owned() } else { format!("{module}.{name}") };
        match definition {
            Definition::Class(def) => {
                let name = qualified(&def.name);
                if def.base.ends_with("Interface") {
                    self.interfaces.insert(Symbol::new(&def.name), name.clone());
                }
                self.classes.insert(name, DeclaredClass { def, record: Arc::clone(record) });
            }
            Definition::Function(def) => {
                self.functions.insert(qualified(&def.name), (def, Arc::clone(record)));
            }
        }
    }

    pub(crate) fn classes(&self) -> impl Iterator<Item = (&str, &DeclaredClass)> {
        self.classes.iter().map(|(name, class)| (name.as_str(), class))
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = (&str, Callable<'_>)> {
        self.functions.iter().map(|(name, (def, record))| (name.as_str(), Callable { def, record }))
    }

    pub(crate) fn class(&self, name: &str) -> Option<&DeclaredClass> {
        self.classes.get(name)
    }

    pub(crate) fn function(&self, name: &str) -> Option<Callable<'_>> {
        self.functions.get(name).map(|(def, record)| Callable { def, record })
    }

    /// The class or interface that objects of a type belong to.
    pub(crate) fn class_of(&self, ty: Type) -> Option<(&str, &DeclaredClass)> {
        let name = match ty.kind() {
            TypeKind::Class(name) | TypeKind::Enum(name) => name.as_str(),
            TypeKind::Interface(name) => self.interfaces.get(name)?,
            _ => return None,
        };
        self.classes.get_key_value(name).map(|(name, class)| (name.as_str(), class))
    }

    /// A method of a class.
    pub(crate) fn method(&self, class: &str, name: &str) -> Option<Callable<'_>> {
        let class = self.classes.get(class)?;
        let def = class.def.methods.iter().find(|method| method.name == name)?;
        Some(Callable { def, record: &class.record })
    }

    /// A field of a class.
    pub(crate) fn field<'c>(&'c self, class: &'c DeclaredClass, name: &str) -> Option<&'c Field> {
        class.def.fields.iter().find(|field| field.name == name)
    }

    // ---- types

    /// The type of an object of a class.
    pub(crate) fn type_of_class(&self, name: &str) -> Result<Type> {
        let Some(class) = self.classes.get(name) else {
            // Classes of PyTorch in C++, packed weights for example, have no code in the archive.
            if name.starts_with(FOREIGN_CLASSES) {
                return Ok(Type::new(TypeKind::Class(Symbol::new(name))));
            }
            return fail(format!("there is no class `{name}`"));
        };
        Ok(match class.def.base.as_str() {
            "NamedTuple" => return self.named_tuple(name, class),
            "Enum" => Type::new(TypeKind::Enum(Symbol::new(name))),
            "Interface" | "ModuleInterface" => Type::new(TypeKind::Interface(Symbol::new(&class.def.name))),
            _ => Type::new(TypeKind::Class(Symbol::new(name))),
        })
    }

    fn named_tuple(&self, name: &str, class: &DeclaredClass) -> Result<Type> {
        if let Some(known) = self.named_tuples.borrow().get(name) {
            return Ok(*known);
        }
        if *self.depth.borrow() >= DEEPEST {
            return fail(format!("named tuples are nested too deep at `{name}`"));
        }
        *self.depth.borrow_mut() += 1;
        let fields = class.def.fields.iter().map(|field| self.tuple_field(field, &class.record));
        let fields: Result<Vec<types::Field>> = fields.collect();
        *self.depth.borrow_mut() -= 1;
        let ty = Type::new(TypeKind::NamedTuple(fields?.into()));
        if parts(ty, MOST_PARTS) == 0 {
            return fail(format!("the named tuple `{name}` has more than {MOST_PARTS} parts"));
        }
        self.named_tuples.borrow_mut().insert(name.to_owned(), ty);
        Ok(ty)
    }

    fn tuple_field(&self, field: &Field, record: &Arc<Record>) -> Result<types::Field> {
        let place = Place { record: Arc::clone(record), at: field.at };
        let Some(declared) = &field.declared else { return fail("a field without a type").map_err(|e| e.at(&place)) };
        let default = field.value.as_ref().and_then(|value| default_text(&value.kind));
        let default = default.map(|text| Symbol::new(&text));
        Ok(types::Field { name: Symbol::new(&field.name), ty: self.annotation(declared, record)?, default })
    }

    /// The declared type of an attribute.
    pub(crate) fn attribute_type(&self, class: &DeclaredClass, name: &str) -> Option<Result<Type>> {
        let declared = self.field(class, name)?.declared.as_ref()?;
        Some(self.annotation(declared, &class.record))
    }

    /// The type that an annotation means.
    pub(crate) fn annotation(&self, expr: &Expr, record: &Arc<Record>) -> Result<Type> {
        let place = Place { record: Arc::clone(record), at: expr.at };
        let ty = match &expr.kind {
            ExprKind::None => Ok(Type::none()),
            ExprKind::Name(name) => match self.classes.contains_key(name.as_str()) {
                true => self.type_of_class(name),
                false => plain(name),
            },
            ExprKind::Attribute(..) => match expr.dotted() {
                Some(names) => self.type_of_class(&names.join(".")),
                None => fail("expected a type"),
            },
            ExprKind::Item(generic, parts) => self.generic(generic, parts, record),
            _ => fail("expected a type"),
        };
        ty.map_err(|error| error.at(&place))
    }

    fn generic(&self, generic: &Expr, parts: &Expr, record: &Arc<Record>) -> Result<Type> {
        let ExprKind::Name(name) = &generic.kind else { return fail("expected a type") };
        let parts = match &parts.kind {
            ExprKind::Tuple(parts) => parts.iter().map(|part| self.annotation(part, record)).collect::<Result<_>>()?,
            _ => vec![self.annotation(parts, record)?],
        };
        Ok(match (name.as_str(), parts.as_slice()) {
            ("List", [of]) => Type::list(*of),
            // PyTorch makes a union with None an optional.
            ("Optional", [of]) if matches!(of.kind(), TypeKind::Optional(_)) => *of,
            ("Optional", [of]) => Type::optional(*of),
            ("Dict", [key, of]) => Type::new(TypeKind::Dict(*key, *of)),
            ("Future", [of]) => Type::new(TypeKind::Future(*of)),
            ("RRef", [of]) => Type::new(TypeKind::RRef(*of)),
            ("Await", [of]) => Type::new(TypeKind::Await(*of)),
            ("Final", [of]) => *of,
            ("Tuple", _) => Type::tuple(&parts),
            ("Union", _) => Type::new(TypeKind::Union(parts.into())),
            _ => return fail(format!("unknown type `{name}` of {} parts", parts.len())),
        })
    }
}

fn plain(name: &str) -> Result<Type> {
    let simple = match name {
        "Tensor" => return Ok(Type::tensor()),
        "None" => Simple::None,
        "number" => Simple::Scalar,
        "AnyList" | "list" => Simple::AnyList,
        "AnyTuple" | "tuple" => Simple::AnyTuple,
        _ => match Simple::ALL.iter().find(|simple| simple.name() == name) {
            Some(simple) => *simple,
            None => return fail(format!("unknown type `{name}`")),
        },
    };
    Ok(Type::simple(simple))
}

/// The default of a field as PyTorch prints it.
fn default_text(kind: &ExprKind) -> Option<String> {
    Some(match kind {
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
        ExprKind::None => "None".to_owned(),
        ExprKind::Text(text) => String::from_utf8_lossy(text).into_owned(),
        _ => return None,
    })
}

/// The parts of a type that are left of a number; 0 if it has more.
fn parts(ty: Type, left: usize) -> usize {
    ty.parts().into_iter().fold(left.saturating_sub(1), |left, part| if left == 0 { 0 } else { parts(part, left) })
}
