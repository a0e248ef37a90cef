//! The memory order of the dimensions of results, for kernels that return contiguous elements where
//! PyTorch does not.

use crate::interpreter::Release;
use crate::interpreter::call::{Call, Outs};
use crate::interpreter::ivalue::IValue;
use crate::symbol::Symbol;
use crate::tensor::layout::{self, Dims};
use crate::tensor::{DType, Tensor};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The rule that determines the order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// Channels-last if the first operand is channels-last.
    Suggested,
    /// The same, by the rule of batch norms for sizes of 1.
    OfNorm,
    /// Channels-last if one of the first two operands is channels-last.
    EitherSuggested,
    /// The same for images; volumes of doubles and of integers are contiguous.
    OfConvolution,
    /// The order of the first operand, which has the sizes of the result.
    Kept,
    /// The order of the first operand, of which the result is a part.
    Followed,
    /// The same for a number and one tensor, for which PyTorch uses strides even if the tensor is
    /// contiguous.
    FollowedAlone,
    /// Contiguous, regardless of sizes of 1.
    Row,
    /// Contiguous if the first operand is a number.
    RowWithNumber,
}

/// The rules of PyTorch 2.15.
const ORDERS: &[(Order, &str)] = &[
    (
        Order::Suggested,
        "aten::max_pool2d aten::max_pool2d_with_indices aten::avg_pool2d aten::adaptive_avg_pool2d aten::_adaptive_avg_pool2d
        aten::adaptive_max_pool2d aten::upsample_nearest2d aten::upsample_nearest3d aten::_upsample_nearest_exact2d
        aten::_upsample_nearest_exact3d aten::upsample_bilinear2d aten::upsample_bicubic2d aten::upsample_trilinear3d
        aten::_upsample_bilinear2d_aa aten::_upsample_bicubic2d_aa aten::__interpolate aten::__upsample aten::__upsample_bilinear
        aten::__upsample_nearest aten::group_norm aten::native_group_norm aten::constant_pad_nd aten::pad aten::reflection_pad2d
        aten::reflection_pad3d aten::replication_pad2d aten::replication_pad3d aten::pixel_shuffle aten::pixel_unshuffle
        aten::channel_shuffle aten::native_channel_shuffle aten::roll",
    ),
    (Order::OfNorm, "aten::batch_norm aten::native_batch_norm aten::_batch_norm_impl_index aten::cudnn_batch_norm"),
    (
        Order::OfConvolution,
        "aten::convolution aten::_convolution aten::conv3d aten::conv_transpose3d",
    ),
    (Order::EitherSuggested, "aten::conv2d aten::conv_transpose2d aten::thnn_conv2d aten::_conv_depthwise2d"),
    (
        Order::Kept,
        "aten::sort aten::argsort aten::index_fill aten::index_put aten::rand_like aten::randn_like aten::randint_like",
    ),
    (Order::Followed, "aten::diff"),
    (
        Order::FollowedAlone,
        "aten::add aten::sub aten::mul aten::div aten::rsub aten::fmod aten::remainder aten::floor_divide aten::eq aten::ne aten::lt
        aten::le aten::gt aten::ge aten::hardtanh aten::relu6 aten::nan_to_num",
    ),
    (Order::RowWithNumber, "aten::pow"),
    (
        Order::Row,
        "aten::topk aten::softmax aten::_softmax aten::log_softmax aten::_log_softmax aten::special_softmax aten::special_log_softmax
        aten::_safe_softmax aten::cumsum aten::cumprod aten::cummax aten::cummin aten::logcumsumexp aten::log_sigmoid aten::rrelu aten::renorm",
    ),
];

static BY_KIND: LazyLock<FxHashMap<Symbol, Order>> = LazyLock::new(|| {
    let each =
        |&(order, kinds): &(Order, &'static str)| kinds.split_whitespace().map(move |kind| (Symbol::new(kind), order));
    ORDERS.iter().flat_map(each).collect()
});

/// The results with their elements in PyTorch's order. Views of operands are unchanged.
pub(crate) fn laid(call: &Call<'_>, mut results: Outs) -> Outs {
    let Some(&order) = BY_KIND.get(&call.kind()).filter(|_| call.release() >= Release(1, 5)) else { return results };
    let operands: Vec<&Tensor> = call.args.iter().filter_map(IValue::tensor).take(2).collect();
    for result in &mut results {
        if let IValue::Tensor(tensor) = result
            && !call.args.iter().filter_map(IValue::tensor).any(|operand| operand.shares_storage(tensor))
            && let Some(strides) = strides(call, order, &operands, tensor)
        {
            *result = IValue::Tensor(tensor.laid(strides));
        }
    }
    results
}

fn strides(call: &Call<'_>, order: Order, operands: &[&Tensor], result: &Tensor) -> Option<Dims> {
    let first = operands.first().filter(|first| first.rank() == result.rank())?;
    let shape = result.shape();
    let suggested = |x: &Tensor| layout::suggested_order(x.shape(), x.strides());
    let of_either = || operands.iter().find_map(|x| suggested(x).filter(|order| order.len() == shape.len()));
    let channels = match order {
        Order::Kept if first.shape() == shape => return Some(layout::kept_strides(shape, first.strides())),
        Order::Kept => return None,
        Order::FollowedAlone if operands.len() > 1 || first.shape() != shape => return None,
        Order::Followed | Order::FollowedAlone => {
            return Some(layout::strides_in_order(shape, &layout::iteration_order(shape, &[first.strides().into()])));
        }
        Order::RowWithNumber if call.args.first().is_some_and(|first| first.tensor().is_some()) => return None,
        Order::Row | Order::RowWithNumber => None,
        Order::OfNorm => layout::order_of_norm(first.shape(), first.strides()),
        // Circular padding is assembled from slices.
        Order::Suggested
            if call.get("mode").is_some_and(|mode| matches!(mode, IValue::Str(how) if &*how == "circular")) =>
        {
            None
        }
        Order::Suggested => suggested(first),
        Order::OfConvolution
            if result.rank() == 5 && !matches!(result.dtype(), DType::Float | DType::Half | DType::BFloat16) =>
        {
            None
        }
        Order::EitherSuggested | Order::OfConvolution => of_either(),
    };
    Some(channels.map_or_else(|| layout::contiguous(shape), |order| layout::strides_in_order(shape, order)))
}
