//! Launches: a plan, operands, and memory for results.

use super::cuda_device::DeviceMemory;
use super::destinations::{Destination, Totals};
use super::emulated_launch::{Observed, Operands};
use super::executing::LaunchMemory;
use super::launch_plan::{Code, Plan, touched};
use super::launching::{in_phases, shared_out};
use super::loading::Arguments;
use crate::codegen::kernel::{Load, Made, Outcome, Store};
use crate::codegen::kernel_plan::TUNING;
use crate::codegen::nest::nest_execution::{Space, run};
use crate::interpreter::IValue;
use crate::interpreter::call::Outs;
use crate::tensor::buffer::{Buffer, with_elements};
use crate::tensor::{Dims, Scalar, Tensor, layout};
use smallvec::SmallVec;
use std::rc::Rc;

/// A group that is ready to be launched.
#[derive(Debug)]
pub struct Prepared {
    plan: Rc<Plan>,
    operands: Vec<IValue>,
    buffers: SmallVec<[Destination; 2]>,
    totals: Vec<Totals>,
    seen: Observed,
    seed: u32,
    /// The memory of results on a device.
    there: Vec<Rc<DeviceMemory>>,
}

impl Prepared {
    /// Allocates memory for the results, with canaries if it is guarded. Threads of an emulated
    /// device are scheduled as the seed determines. The operands must match
    /// the plan's specification.
    pub(crate) fn new(plan: Rc<Plan>, operands: Vec<IValue>, (guarded, seed): (bool, u32)) -> Prepared {
        let (kernel, geometry) = (&plan.kernel, &plan.geometry);
        // A device has its own memory, which nothing else writes to.
        let guarded = guarded && !matches!(plan.compiled.code, Code::Device(_));
        let destination =
            |(made, (shape, _)): (&Made, &(Dims, Dims))| Destination::new(made.dtype, layout::numel(shape), guarded);
        let buffers = kernel.made.iter().zip(&geometry.made).map(destination).collect();
        let column_reductions =
            kernel.stores.iter().zip(kernel.loads.len()..).filter(|(store, _)| store.column_reduction.is_some());
        let totals = column_reductions.map(|(store, access)| {
            let elements = layout::numel(&geometry.made[store.tensor].0);
            Totals::new(store.tensor, access, elements, plan.shares, guarded)
        });
        Prepared {
            buffers,
            totals: totals.collect(),
            operands,
            plan,
            seen: Observed::default(),
            seed,
            there: Vec::new(),
        }
    }

    /// Bytes that a launch has to load and store; each is counted once, however often a broadcast
    /// operand or a row is read.
    pub fn bytes(&self) -> usize {
        touched(&self.plan.kernel, &self.plan.geometry)
    }

    /// The approximate number of arithmetic operations of a launch.
    pub fn operations(&self) -> usize {
        self.plan.geometry.points * self.plan.kernel.operations
    }

    /// The findings of the checks of the launch.
    pub(super) fn seen(&mut self) -> Observed {
        std::mem::take(&mut self.seen)
    }

    /// Computes the results from the current contents of the operands' memory. Returns whether
    /// there was anything to compute.
    ///
    /// # Errors
    /// If memory does not match the plan.
    pub fn launch(&mut self) -> Result<bool, String> {
        let Plan { kernel, geometry, compiled, .. } = &*self.plan;
        if geometry.is_empty {
            return Ok(false);
        }
        let real = |&i: &usize| self.operands[i].scalar().map_or(0.0, Scalar::real);
        let whole = |&i: &usize| self.operands[i].scalar().map_or(0, Scalar::int);
        let floats: SmallVec<[f64; 4]> = kernel.floats.iter().map(real).collect();
        let integers: SmallVec<[i64; 4]> = kernel.integers.iter().map(whole).collect();
        if let Code::Device(device) = &compiled.code {
            self.there = device.launch(kernel, geometry, &self.operands, (&floats, &integers))?;
            let clock = &device.module.device().clock;
            if clock.is_on() {
                clock.count(0, self.bytes());
            }
            return Ok(true);
        }
        let held: SmallVec<[_; 8]> = self
            .operands
            .iter()
            .map(|value| value.tensor().map(|tensor| (tensor.storage().read(), tensor.offset())))
            .collect();
        let mut data: SmallVec<[usize; 16]> = SmallVec::new();
        for (load, &offset) in kernel.loads.iter().zip(&geometry.offsets) {
            let (buffer, begin) = held[load.operand].as_ref().ok_or("an operand is not a tensor")?;
            let reach = geometry.reaches[load.operand];
            // A view without elements may begin after the end of its memory.
            if buffer.dtype() != load.dtype || reach > 0 && buffer.len() < begin + reach {
                return Err(format!("the memory of an operand does not match its type {}", load.dtype.name()));
            }
            data.push(first(buffer) + (begin + offset) * load.dtype.size());
        }
        for (store, &offset) in kernel.stores.iter().zip(&geometry.offsets[kernel.loads.len()..]) {
            data.push(self.buffers[store.tensor].first() + offset * kernel.made[store.tensor].dtype.size());
        }
        // Blocks of threads have partial sums of their own, and a second launch for the result.
        let has_totals = !matches!(compiled.code, Code::Emulated(_));
        for totals in self.totals.iter_mut().filter(|_| has_totals) {
            totals.clear();
            data[totals.access] = totals.first();
        }
        let (function, _library) = match &compiled.code {
            Code::Function(function, library) => (*function, library),
            Code::Emulated(emulated) => {
                let loads = kernel.loads.iter().zip(&geometry.offsets);
                let loaded = loads.map(|(load, &offset)| geometry.reaches[load.operand].saturating_sub(offset));
                let stores = kernel.stores.iter().zip(&geometry.offsets[kernel.loads.len()..]);
                let stored = stores.map(|(store, &offset)| layout::numel(&geometry.made[store.tensor].0) - offset);
                let data: Vec<(usize, usize)> = data.iter().copied().zip(loaded.chain(stored)).collect();
                let starts = self.starts();
                let operands = Operands { data: &data, starts: &starts, floats: &floats, integers: &integers };
                self.seen = emulated.launch(kernel, geometry, &operands, self.seed)?;
                return Ok(true);
            }
            Code::Device(_) => return Ok(true),
            Code::Nest(nest) => {
                let load = |(load, &offset): (&Load, &usize)| {
                    held[load.operand].as_ref().map(|(buffer, begin)| (&**buffer, begin + offset))
                };
                let loads: Option<Vec<(&Buffer, usize)>> =
                    kernel.loads.iter().zip(&geometry.offsets).map(load).collect();
                let stores = kernel.stores.iter().zip(&geometry.offsets[kernel.loads.len()..]);
                let mut memory = LaunchMemory {
                    loads: loads.ok_or("an operand is not a tensor")?,
                    results: &mut self.buffers,
                    stores: stores.map(|(store, &offset)| (store.tensor, offset)).collect(),
                    totals: &mut self.totals,
                };
                let (shape, strides) = (&geometry.shape[..], &geometry.strides[..]);
                let bounds = &geometry.bounds[..];
                let (kept, parts, shares) = (geometry.kept, self.plan.threads.max(1), self.plan.shares);
                let columns = self.plan.tile.unwrap_or(TUNING.columns);
                let (floats, integers) = (&floats[..], &integers[..]);
                let space = Space { shape, kept, columns, parts, shares, strides, bounds, floats, integers };
                run(nest, &space, &mut memory)?;
                for totals in &mut self.totals {
                    totals.add_up(&mut self.buffers[totals.tensor]);
                }
                return Ok(true);
            }
        };
        let arguments = Arguments {
            shape: &geometry.shape,
            kept: geometry.kept,
            strides: &geometry.strides,
            data: &data,
            floats: &floats,
            integers: &integers,
            stream: self.plan.streams,
            columns: self.plan.tile.unwrap_or(TUNING.columns),
            away: self.plan.away,
            bounds: &geometry.bounds,
            part: None,
        };
        if let Some(phases) = compiled.phases {
            in_phases(function, &arguments, geometry.tiles(None), self.plan.threads, phases);
            return Ok(true);
        }
        let apart: SmallVec<[(usize, usize); 4]> =
            self.totals.iter().map(|totals| (totals.access, totals.bytes())).collect();
        let parts = (self.plan.threads, self.plan.shares);
        shared_out(function, &arguments, geometry.tiles(self.plan.tile), parts, &apart);
        for totals in &mut self.totals {
            totals.add_up(&mut self.buffers[totals.tensor]);
        }
        Ok(true)
    }

    /// The bytes at which accesses begin in memory of a device, where storages are aligned.
    fn starts(&self) -> Vec<usize> {
        let Plan { kernel, geometry, .. } = &*self.plan;
        let of_load = |(load, &offset): (&Load, &usize)| {
            let begin = self.operands[load.operand]
                .tensor()
                .map_or(0, |tensor| (tensor.offset() + offset).saturating_sub(tensor.storage().known().start));
            begin * load.dtype.size()
        };
        let of_store = |(store, &offset): (&Store, &usize)| offset * kernel.made[store.tensor].dtype.size();
        let stores = kernel.stores.iter().zip(&geometry.offsets[kernel.loads.len()..]);
        kernel.loads.iter().zip(&geometry.offsets).map(of_load).chain(stores.map(of_store)).collect()
    }

    /// Waits until the last launch is done.
    ///
    /// # Errors
    /// The device has failed.
    pub fn wait(&self) -> Result<(), String> {
        match &self.plan.compiled.code {
            Code::Device(kernel) => kernel.module.device().wait(),
            _ => Ok(()),
        }
    }

    /// The results of the last launch.
    ///
    /// # Errors
    /// If they cannot be made tensors.
    pub(crate) fn results(self) -> Result<Outs, String> {
        let Plan { kernel, geometry, .. } = &*self.plan;
        let tensors = || self.operands.iter().filter_map(IValue::tensor);
        let device = tensors().find(|tensor| tensor.rank() > 0).or_else(|| tensors().next()).map(Tensor::device);
        let placed = self.buffers.into_iter().zip(&kernel.made).zip(&geometry.made);
        let made = placed.map(|((buffer, made), laid)| buffer.tensor(made.dtype, laid, device.unwrap_or_default()));
        let made: SmallVec<[Tensor; 2]> = made.collect::<Result<_, _>>()?;
        for (tensor, memory) in made.iter().zip(self.there) {
            tensor.storage().keep_elsewhere(memory, true);
        }
        let result = |outcome: &Outcome| match *outcome {
            Outcome::Made(tensor) => IValue::Tensor(made[tensor].clone()),
            Outcome::Operand(operand) => self.operands[operand].clone(),
        };
        Ok(kernel.results.iter().map(result).collect())
    }
}

/// The address of the first element.
fn first(buffer: &Buffer) -> usize {
    with_elements!(buffer, elements => elements.as_ptr().expose_provenance())
}
