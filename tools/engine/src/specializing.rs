//! Parameter types from a description of the arguments, and from sizes.

use crate::Workspace;
use crate::error::{Error, refuse};
use crate::given_texts::SizesOf;
use crate::settings::SHAPE;
use jitopt_core::analysis::gradient_claims::forget_claims;
use jitopt_core::interpreter::description::{self, Described};
use jitopt_core::interpreter::specialization::{Detail, shaped, specialized};
use jitopt_core::ir::{Graph, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::types::TypeKind;
use jitopt_core::types::era::Era;
use std::path::Path;

/// The given types of parameters.
#[derive(Default)]
pub struct Specialization {
    /// The file and its descriptions.
    arguments: Option<(String, Vec<Described>)>,
    shapes: Vec<SizesOf>,
    detail: Option<Detail>,
}

/// The name that was probably meant: `x.1` of `x`, else one that is spelt alike.
pub(crate) fn near_name<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let versions = |known: &&String| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let near = names.iter().find(versions).map(String::as_str);
    near.or_else(|| did_you_mean(name, names.iter().map(String::as_str))).filter(|near| *near != name)
}

impl Specialization {
    /// Reads the description of the arguments, whose `detail` is written into types.
    ///
    /// # Errors
    /// The file cannot be read, or is not a description.
    pub fn read(
        args: Option<&Path>,
        shapes: &[SizesOf],
        detail: Detail,
        workspace: &Workspace<'_>,
    ) -> Result<Specialization, Error> {
        let arguments = match args {
            None => None,
            Some(path) => {
                let bytes = workspace.read(path)?;
                let name = path.display().to_string();
                let described = description::parse(&bytes).or_else(|e| refuse(format_args!("`{name}`: {e}")))?;
                Some((name, described.inputs.into_iter().map(|input| input.value).collect()))
            }
        };
        Ok(Specialization { arguments, shapes: shapes.to_vec(), detail: Some(detail) })
    }

    /// Shapes alone.
    pub fn of_shapes(shapes: &[SizesOf]) -> Specialization {
        Specialization { shapes: shapes.to_vec(), ..Specialization::default() }
    }

    /// The description file, if it describes tensors and none of them requires a gradient.
    /// Containers are ignored, as their elements may require one.
    pub fn without_gradients(&self) -> Option<&str> {
        let (file, arguments) = self.arguments.as_ref()?;
        let wants = |one: &Described| match one {
            Described::Tensor(note) => note.requires_grad == Some(true),
            Described::List(_) | Described::Tuple(_) | Described::Dict(_) | Described::Object { .. } => true,
            _ => false,
        };
        let has_tensors = arguments.iter().any(|one| matches!(one, Described::Tensor(_)));
        (has_tensors && !arguments.iter().any(wants)).then_some(file)
    }

    /// Assigns types to the parameters of a graph.
    ///
    /// # Errors
    /// A type does not fit, or there is no such parameter.
    pub fn apply(&self, graph: &mut Graph) -> Result<(), String> {
        if let Some((file, arguments)) = &self.arguments {
            self.apply_arguments(graph, file, arguments)?;
        }
        for given in &self.shapes {
            let name = &given.name;
            let params: Vec<Value> = graph.params(graph.root()).collect();
            let Some(&param) = params.iter().find(|&&param| graph.name(param) == *name) else {
                let names: Vec<String> = params.iter().map(|&param| graph.name(param)).collect();
                let near = near_name(name, &names);
                let near = near.map_or(String::new(), |near| format!("; did you mean `%{near}`?"));
                return Err(format!(
                    "{SHAPE} {given}\n{}: there is no parameter %{name}{near}",
                    carets(&format!("{SHAPE} %"), name)
                ));
            };
            let ty = shaped(graph.ty(param), &given.sizes).map_err(|why| {
                let text = given.to_string();
                let sizes = text.split_once('=').map_or("", |(_, sizes)| sizes);
                let at = carets(&format!("{SHAPE} %{name}="), sizes);
                format!("{SHAPE} {given}\n{at}: %{name}: {why}")
            })?;
            graph.set_type(param, ty);
        }
        Ok(())
    }

    fn apply_arguments(&self, graph: &mut Graph, file: &str, arguments: &[Described]) -> Result<(), String> {
        let is_object = |ty: &TypeKind| matches!(ty, TypeKind::Class(_) | TypeKind::Interface(_));
        let all: Vec<Value> = graph.params(graph.root()).collect();
        let plain: Vec<Value> = all.iter().copied().filter(|&param| !is_object(graph.ty(param).kind())).collect();
        let params = if arguments.len() == all.len() { all } else { plain };
        if params.len() != arguments.len() {
            return Err(format!(
                "`{file}` describes {} arguments, but the graph takes {}",
                arguments.len(),
                params.len()
            ));
        }
        for (param, argument) in params.into_iter().zip(arguments) {
            let ty = specialized(graph.ty(param), argument, self.detail.unwrap_or(Detail::Rank))
                .map_err(|why| format!("`{file}`: %{}: {why}", graph.name(param)))?;
            graph.set_type(param, ty);
        }
        if arguments.iter().any(|one| matches!(one, Described::Tensor(note) if note.requires_grad == Some(true))) {
            forget_claims(graph);
        }
        if graph.era == Era::V1_3 {
            // Types with element types and sizes are printed at verbosity 1 or more.
            graph.dialect.spelling.verbosity.get_or_insert(1);
        }
        Ok(())
    }
}

/// A line that marks the wrong part of the line above it.
fn carets(before: &str, wrong: &str) -> String {
    format!("{}{}", " ".repeat("error: ".len() + before.len()), "^".repeat(wrong.len().max(1)))
}
