//! Launches of compiled kernels on a GPU.
//!
//! Tensors stay there: an operand is copied to the device once, and a result is copied back when
//! it is read, see [`crate::tensor::elsewhere`].
//!
//! ```text
//! %b = prim::FusionGroup_0(%a)     copies %a to the device
//! %c = prim::FusionGroup_1(%b)     copies nothing
//! %d = aten::mm(%c, %c)            copies %c from the device, the interpreter runs the product
//! ```

#![allow(unsafe_code, reason = "launches and copies; each block says why it is sound")]

use super::cuda_device::{Device, DeviceMemory, Module};
use super::cuda_work::{Function, Work};
use super::device_launch::DeviceLaunch;
use super::emulated_launch::{MOST_BLOCKS, Operands, SLOT, blocks_of, place, total_launch};
use super::partial_sums::PartialSums;
use super::wide_launch::{Functions, SplitFunctions, rows_of_merge};
use crate::codegen::geometry::Geometry;
use crate::codegen::kernel::Kernel;
use crate::codegen::kernel_plan::Grid;
use crate::interpreter::IValue;
use crate::tensor::buffer::{Buffer, with_elements};
use crate::tensor::elsewhere::Elsewhere;
use crate::tensor::{Tensor, layout};
use std::any::Any;
use std::rc::Rc;

/// Most blocks of other launches: many more than a device runs at once, so that each has little to
/// do, and the last ones end at nearly the same time.
const MANY_BLOCKS: i64 = 1 << 20;

/// A kernel of a GPU.
#[derive(Debug)]
pub(crate) struct DeviceKernel {
    pub(super) module: Rc<Module>,
    pub(super) functions: Functions<Function>,
    /// Those of a split reduction.
    pub(super) split: Option<SplitFunctions<Function>>,
    /// Those that add up the partial sums of column reductions, by their stores.
    pub(super) totals: Vec<(usize, Function)>,
    pub(super) grid: Grid,
}

impl Elsewhere for DeviceMemory {
    fn fetch(&self, into: &mut Buffer, from: usize) {
        let to = with_elements!(into, elements => elements[from..].as_mut_ptr().cast::<u8>());
        // SAFETY: the buffer was made for as many elements as this memory has, from that one
        // on, and is borrowed. Kernels write values of the elements' type, 0 or 1 where that is
        // `bool`. A failure leaves zeros; the device keeps it, and the run ends with it.
        if let Err(why) = unsafe { self.download(to) } {
            self.device().fail(why);
        }
    }

    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}

/// The memory of a tensor's storage on a device, copied there if it is not there yet.
pub(super) fn on_device(tensor: &Tensor, device: &Rc<Device>) -> Result<Rc<DeviceMemory>, String> {
    let storage = tensor.storage();
    let there = storage.elsewhere().and_then(|memory| memory.as_any().downcast::<DeviceMemory>().ok());
    if let Some(memory) = there.filter(|memory| memory.is_on(device)) {
        return Ok(memory);
    }
    let (buffer, known) = (storage.read(), storage.known());
    let memory = Rc::new(device.allocate(known.len() * buffer.element_size())?);
    if !known.is_empty() {
        let from = with_elements!(&*buffer, elements => elements[known.clone()].as_ptr().cast::<u8>());
        // SAFETY: the buffer is borrowed, and has these elements.
        unsafe { memory.upload(from)? };
    }
    drop(buffer);
    storage.keep_elsewhere(memory.clone(), false);
    Ok(memory)
}

impl DeviceKernel {
    /// Launches it. Returns the memory of each result.
    ///
    /// # Errors
    /// The device has no memory left, or has failed; why it could not be launched so.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        geometry: &Geometry,
        operands: &[IValue],
        (floats, integers): (&[f64], &[i64]),
    ) -> Result<Vec<Rc<DeviceMemory>>, String> {
        let device = self.module.device();
        let (mut data, mut starts): (Vec<(usize, usize)>, Vec<usize>) = Default::default();
        // Until the end of this function; what is freed then is used again later on the stream.
        let mut held = Vec::new();
        for (load, &offset) in kernel.loads.iter().zip(&geometry.offsets) {
            let tensor = operands[load.operand].tensor().ok_or("an operand is not a tensor")?;
            let (known, reach) = (tensor.storage().known(), geometry.reaches[load.operand]);
            if tensor.storage().dtype() != load.dtype || reach > 0 && known.end < tensor.offset() + reach {
                return Err(format!("the memory of an operand does not match its type {}", load.dtype.name()));
            }
            let memory = on_device(tensor, device)?;
            let begin = (tensor.offset() + offset).saturating_sub(known.start) * load.dtype.size();
            data.push((memory.address() + begin, reach.saturating_sub(offset)));
            starts.push(begin);
            held.push(memory);
        }
        let mut results = Vec::new();
        for (made, (shape, _)) in kernel.made.iter().zip(&geometry.made) {
            results.push(Rc::new(device.allocate(layout::numel(shape) * made.dtype.size())?));
        }
        for (store, &offset) in kernel.stores.iter().zip(&geometry.offsets[kernel.loads.len()..]) {
            let begin = offset * kernel.made[store.tensor].dtype.size();
            let elements = layout::numel(&geometry.made[store.tensor].0) - offset;
            data.push((results[store.tensor].address() + begin, elements));
            starts.push(begin);
        }
        let operands = Operands { data: &data, starts: &starts, floats, integers };
        let mut launch = operands.launch(geometry)?;
        if self.launch_split((kernel, geometry), &mut launch, &starts)? {
            return Ok(results);
        }
        let chosen = self.functions.chosen(self.grid, (kernel, geometry), &mut launch, &starts);
        let sums = PartialSums::of(kernel, geometry, chosen.grid)?;
        let most = if sums.is_empty() { MANY_BLOCKS } else { MOST_BLOCKS };
        let blocks = blocks_of(&launch, chosen.rows).min(most);
        let blocks = sums.iter().map(PartialSums::most_blocks).fold(blocks, i64::min);
        let mut partial = Vec::new();
        for sums in &sums {
            let elements = (sums.elements * sums.copies * blocks) as usize;
            let memory = device.allocate(elements * size_of::<f64>())?;
            memory.clear()?;
            place(sums, (memory.address(), elements), &mut launch)?;
            partial.push((memory, elements));
        }
        self.enter(chosen.function, (blocks, chosen.grid.threads), &launch)?;
        for (sums, (memory, elements)) in sums.iter().zip(&partial) {
            let launch = total_launch(sums, (memory.address(), *elements), data[sums.access].0);
            let total = self.totals.iter().find(|total| total.0 == sums.store).ok_or("a sum has no second launch")?;
            let blocks = blocks_of(&launch, self.grid.threads).min(MANY_BLOCKS);
            self.enter(total.1, (blocks, self.grid.threads), &launch)?;
        }
        Ok(results)
    }

    /// Launches parts of rows and what merges them, if rows are worth it to be split.
    fn launch_split(
        &self,
        of: (&Kernel, &Geometry),
        launch: &mut DeviceLaunch,
        starts: &[usize],
    ) -> Result<bool, String> {
        let split = self.split.as_ref().and_then(|split| split.chosen(self.grid, of, launch, starts));
        let Some(split) = split else { return Ok(false) };
        // Until the end of this function; what is freed then is used again later on the stream.
        let memory = self.module.device().allocate(split.slots * SLOT)?;
        launch.left = memory.address();
        let blocks = blocks_of(launch, rows_of_merge(self.grid)).min(MANY_BLOCKS);
        for (parts, merge) in split.phases {
            self.enter(parts.function, (split.blocks, parts.grid.threads), launch)?;
            merge.map_or(Ok(()), |merge| self.enter(merge, (blocks, self.grid.threads), launch))?;
        }
        Ok(true)
    }

    fn enter(&self, function: Function, (blocks, threads): (i64, usize), launch: &DeviceLaunch) -> Result<(), String> {
        let work = Work::Launch(function, (blocks as u32, threads as u32), Box::new(launch.clone()));
        // SAFETY: as for compiled kernels, see `launching.rs`: the text is of the same kernel, and
        // its accesses are within the memory that `geometry` was checked against. The module is
        // loaded, and unloading it waits for its kernels. Memory that is dropped before the launch
        // is done goes to the pool, whose next user comes later on the stream.
        unsafe { self.module.device().queue(work) }
    }
}
