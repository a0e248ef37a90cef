//! Units of kernels as PTX, which is interpreted.

use super::{CpuBackend, Wanted};
use crate::codegen::text_lines::SourceText;
use crate::runtime::emulated_launch::Image;
use crate::runtime::launch_plan::Compiled;
use crate::runtime::ptx::PtxModule;
use crate::runtime::ptx_compiler::PtxCompiler;
use std::rc::Rc;

impl CpuBackend {
    /// NVRTC, or clang.
    pub(super) fn ptx_compiler(&self) -> Result<&PtxCompiler, String> {
        let (nvrtc, clang) = (self.settings.nvrtc.as_deref(), self.settings.clang.as_deref());
        let find = || PtxCompiler::find(nvrtc, clang, &self.cache);
        self.ptx_compiler.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    /// Compiles a unit to PTX.
    pub(super) fn make_of_ptx(&self, names: &[String], unit: &[Wanted], text: SourceText) -> Result<(), String> {
        let module = Rc::new(PtxModule::read(&self.ptx_of(&text, unit.len() as u64)?)?);
        let text = Rc::new(text);
        for (name, wanted) in names.iter().zip(unit) {
            let grid = wanted.grid.ok_or("a plan for GPUs has no grid")?;
            let code = self.emulated((name, wanted, grid), Image::Ptx(module.clone()), &text)?;
            let compiled = Compiled { code, tile: wanted.tile, phases: None };
            self.by_identity.borrow_mut().insert(wanted.identity, Rc::new(compiled));
        }
        Ok(())
    }

    /// The PTX of a text, from disk or compiled.
    fn ptx_of(&self, text: &SourceText, kernels: u64) -> Result<String, String> {
        // Lines are part of the result: a text with other notes has other ones.
        let compiler = self.ptx_compiler()?;
        let (known_by, identity) = (text.code(), compiler.identity());
        let kept = self.cache.library(&known_by, &identity);
        if let Some(ptx) = kept.and_then(|path| std::fs::read_to_string(path).ok()) {
            self.count(|counts| counts.cached += kernels);
            return Ok(ptx);
        }
        let ptx = compiler.compile(text.text(), &self.cache, self.deadline.get())?;
        self.count(|counts| {
            counts.compiled += kernels;
            counts.units += 1;
        });
        self.keep_image(&known_by, &identity, ptx.as_bytes());
        Ok(ptx)
    }
}
