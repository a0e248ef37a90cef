//! Parameter types from `--args` and `--shape`.

use crate::Workspace;
use crate::error::{Error, refuse};
use jitopt_core::analysis::gradient_claims::forget_claims;
use jitopt_core::interpreter::description::{self, Described};
use jitopt_core::interpreter::specialization::{Detail, shaped, specialized};
use jitopt_core::ir::{Graph, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::tensor::layout::{self, Dims};
use jitopt_core::types::TypeKind;
use jitopt_core::types::era::Era;
use std::path::Path;

/// The given types of parameters.
#[derive(Default)]
pub struct Specialization {
    /// The file and its descriptions.
    arguments: Option<(String, Vec<Described>)>,
    /// The flag, the name and the sizes.
    shapes: Vec<(String, String, Dims)>,
    detail: Option<Detail>,
}

/// The name that was probably meant: `x.1` of `x`, else one that is spelt alike.
pub(crate) fn near_name<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let versions = |known: &&String| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let near = names.iter().find(versions).map(String::as_str);
    near.or_else(|| did_you_mean(name, names.iter().map(String::as_str))).filter(|near| *near != name)
}

impl Specialization {
    /// Reads the description of the arguments, whose `detail` is written into types, and parses
    /// shapes, `%x=3,4`.
    ///
    /// # Errors
    /// The file cannot be read, is not a description, or a shape cannot be parsed.
    pub fn read(
        args: Option<&Path>,
        shape: &[String],
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
        let shapes = shape.iter().map(|text| self::shape(text)).collect::<Result<_, _>>()?;
        Ok(Specialization { arguments, shapes, detail: Some(detail) })
    }

    /// Shapes alone.
    ///
    /// # Errors
    /// A shape cannot be parsed.
    pub fn of_shapes(shapes: &[String]) -> Result<Specialization, Error> {
        let shapes = shapes.iter().map(|text| shape(text)).collect::<Result<_, _>>()?;
        Ok(Specialization { shapes, ..Specialization::default() })
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
        for (flag, name, sizes) in &self.shapes {
            let params: Vec<Value> = graph.params(graph.root()).collect();
            let Some(&param) = params.iter().find(|&&param| graph.name(param) == *name) else {
                let names: Vec<String> = params.iter().map(|&param| graph.name(param)).collect();
                let near = near_name(name, &names);
                let near = near.map_or(String::new(), |near| format!("; did you mean `%{near}`?"));
                return Err(format!(
                    "--shape {flag}\n{}: there is no parameter %{name}{near}",
                    carets("--shape %", name)
                ));
            };
            let ty = shaped(graph.ty(param), sizes).map_err(|why| {
                let at = carets(&format!("--shape %{name}="), &flag[flag.find('=').map_or(0, |at| at + 1)..]);
                format!("--shape {flag}\n{at}: %{name}: {why}")
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

/// `%x=3,4`
fn shape(text: &str) -> Result<(String, String, Dims), Error> {
    let wrong = || refuse(format_args!("--shape {text}: expected `--shape '%x=3,4'`"));
    let Some((name, sizes)) = text.split_once('=') else { return wrong() };
    let sizes: Result<Dims, _> =
        sizes.split([',', 'x']).map(str::trim).filter(|size| !size.is_empty()).map(str::parse).collect();
    let Ok(sizes) = sizes else { return wrong() };
    if let Err(error) = layout::checked(&sizes) {
        return refuse(format_args!("--shape {text}: {error}"));
    }
    Ok((text.to_owned(), name.trim().trim_start_matches('%').to_owned(), sizes))
}
