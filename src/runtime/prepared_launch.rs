//! Launches: a plan, operands, and memory for results.

use super::cuda_device::DeviceMemory;
use super::cuda_launch::DeviceKernel;
use super::destinations::{Destination, Totals};
use super::emulated_launch::{Emulated, Observed, Operands};
use super::executing::LaunchMemory;
use super::launch_plan::{Code, Plan, touched};
use super::launching::{in_phases, shared_out};
use super::loading::{Arguments, Function};
use crate::codegen::kernel::{Kernel, Load, Made, Outcome, Store};
use crate::codegen::kernel_plan::TUNING;
use crate::codegen::nest::Nest;
use crate::codegen::nest::nest_execution::{Space, run};
use crate::interpreter::IValue;
use crate::interpreter::call::Outs;
use crate::tensor::buffer::{Buffer, with_elements};
use crate::tensor::{Dims, Scalar, Tensor, layout};
use smallvec::SmallVec;
use std::cell::Ref;
use std::rc::Rc;

/// A group that is ready to be launched.
#[derive(Debug)]
pub struct Prepared {
    plan: Rc<Plan>,
    operands: Rc<[IValue]>,
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
            operands: operands.into(),
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
        let (plan, operands) = (self.plan.clone(), self.operands.clone());
        if plan.geometry.is_empty {
            return Ok(false);
        }
        let numbers = Numbers::of(&plan.kernel, &operands);
        if let Code::Device(kernel) = &plan.compiled.code {
            self.on_device(kernel, &numbers)?;
            return Ok(true);
        }
        let held: SmallVec<[Held<'_>; 8]> = operands.iter().map(Held::of).collect();
        let data = self.addresses(&held)?;
        match &plan.compiled.code {
            Code::Function(function, _library) => self.on_processor(*function, data, &numbers),
            Code::Emulated(kernel) => self.on_emulated_device(kernel, &data, &numbers)?,
            Code::Nest(nest) => self.on_nest(nest, &held, &numbers)?,
            Code::Device(_) => {}
        }
        Ok(true)
    }

    /// The first element of each access in memory.
    fn addresses(&mut self, held: &[Held<'_>]) -> Result<SmallVec<[usize; 16]>, String> {
        let plan = self.plan.clone();
        let (kernel, geometry) = (&plan.kernel, &plan.geometry);
        let mut data = SmallVec::new();
        for (load, &offset) in kernel.loads.iter().zip(&geometry.offsets) {
            let (buffer, begin) = held[load.operand].0.as_ref().ok_or("an operand is not a tensor")?;
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
        Ok(data)
    }

    /// Queues the launch on a GPU.
    fn on_device(&mut self, kernel: &DeviceKernel, numbers: &Numbers) -> Result<(), String> {
        let Plan { kernel: of, geometry, .. } = &*self.plan;
        self.there = kernel.launch(of, geometry, &self.operands, (&numbers.floats, &numbers.integers))?;
        let clock = &kernel.module.device().clock;
        if clock.is_on() {
            clock.count(0, self.bytes());
        }
        Ok(())
    }

    /// Emulates the blocks of threads, which have partial sums of their own.
    fn on_emulated_device(&mut self, kernel: &Emulated, data: &[usize], numbers: &Numbers) -> Result<(), String> {
        let Plan { kernel: of, geometry, .. } = &*self.plan;
        let loads = of.loads.iter().zip(&geometry.offsets);
        let loaded = loads.map(|(load, &offset)| geometry.reaches[load.operand].saturating_sub(offset));
        let stores = of.stores.iter().zip(&geometry.offsets[of.loads.len()..]);
        let stored = stores.map(|(store, &offset)| layout::numel(&geometry.made[store.tensor].0) - offset);
        let data: Vec<(usize, usize)> = data.iter().copied().zip(loaded.chain(stored)).collect();
        let (starts, Numbers { floats, integers }) = (self.starts(), numbers);
        let operands = Operands { data: &data, starts: &starts, floats, integers };
        self.seen = kernel.launch(of, geometry, &operands, self.seed)?;
        Ok(())
    }

    /// Executes the nest.
    fn on_nest(&mut self, nest: &Nest, held: &[Held<'_>], numbers: &Numbers) -> Result<(), String> {
        let Plan { kernel, geometry, .. } = &*self.plan;
        self.totals.iter_mut().for_each(Totals::clear);
        let load = |(load, &offset): (&Load, &usize)| {
            held[load.operand].0.as_ref().map(|(buffer, begin)| (&**buffer, begin + offset))
        };
        let loads: Option<Vec<(&Buffer, usize)>> = kernel.loads.iter().zip(&geometry.offsets).map(load).collect();
        let stores = kernel.stores.iter().zip(&geometry.offsets[kernel.loads.len()..]);
        let mut memory = LaunchMemory {
            loads: loads.ok_or("an operand is not a tensor")?,
            results: &mut self.buffers,
            stores: stores.map(|(store, &offset)| (store.tensor, offset)).collect(),
            totals: &mut self.totals,
        };
        let space = Space {
            shape: &geometry.shape,
            kept: geometry.kept,
            columns: self.plan.tile.unwrap_or(TUNING.columns),
            parts: self.plan.threads.max(1),
            shares: self.plan.shares,
            strides: &geometry.strides,
            bounds: &geometry.bounds,
            floats: &numbers.floats,
            integers: &numbers.integers,
        };
        run(nest, &space, &mut memory)?;
        self.add_up();
        Ok(())
    }

    /// Runs the compiled function on threads.
    fn on_processor(&mut self, function: Function, mut data: SmallVec<[usize; 16]>, numbers: &Numbers) {
        for totals in &mut self.totals {
            totals.clear();
            data[totals.access] = totals.first();
        }
        let Plan { geometry, compiled, .. } = &*self.plan;
        let arguments = Arguments {
            shape: &geometry.shape,
            kept: geometry.kept,
            strides: &geometry.strides,
            data: &data,
            floats: &numbers.floats,
            integers: &numbers.integers,
            stream: self.plan.streams,
            columns: self.plan.tile.unwrap_or(TUNING.columns),
            away: self.plan.away,
            bounds: &geometry.bounds,
            part: None,
        };
        if let Some(phases) = compiled.phases {
            return in_phases(function, &arguments, geometry.tiles(None), self.plan.threads, phases);
        }
        let apart: SmallVec<[(usize, usize); 4]> =
            self.totals.iter().map(|totals| (totals.access, totals.bytes())).collect();
        let parts = (self.plan.threads, self.plan.shares);
        shared_out(function, &arguments, geometry.tiles(self.plan.tile), parts, &apart);
        self.add_up();
    }

    /// Adds up the totals that parts of a column reduction have left.
    fn add_up(&mut self) {
        for totals in &mut self.totals {
            totals.add_up(&mut self.buffers[totals.tensor]);
        }
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

/// The numbers that a kernel is given.
struct Numbers {
    floats: SmallVec<[f64; 4]>,
    integers: SmallVec<[i64; 4]>,
}

impl Numbers {
    fn of(kernel: &Kernel, operands: &[IValue]) -> Numbers {
        let real = |&i: &usize| operands[i].scalar().map_or(0.0, Scalar::real);
        let integer = |&i: &usize| operands[i].scalar().map_or(0, Scalar::int);
        Numbers {
            floats: kernel.floats.iter().map(real).collect(),
            integers: kernel.integers.iter().map(integer).collect(),
        }
    }
}

/// The memory of an operand, if it is a tensor, and the offset of its first element.
struct Held<'a>(Option<(Ref<'a, Buffer>, usize)>);

impl Held<'_> {
    fn of(value: &IValue) -> Held<'_> {
        Held(value.tensor().map(|tensor| (tensor.storage().read(), tensor.offset())))
    }
}

/// The address of the first element.
fn first(buffer: &Buffer) -> usize {
    with_elements!(buffer, elements => elements.as_ptr().expose_provenance())
}
