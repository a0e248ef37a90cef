//! Values that two files of one model write in different forms: a trace has tensors where another
//! program has numbers, and messages of exceptions begin with a class or not.

use jitopt_core::interpreter::{IValue, Stop};

/// Values in the form of others: a tensor without dimensions as a number where the other is one.
pub(crate) fn in_form_of(others: &[IValue], values: &[IValue]) -> Vec<IValue> {
    let of = |(i, value): (usize, &IValue)| match (others.get(i), value) {
        (Some(other), IValue::Tensor(tensor)) if other.scalar().is_some() && tensor.rank() == 0 => {
            IValue::from(tensor.item())
        }
        (Some(IValue::Tuple(others)), IValue::Tuple(parts)) => IValue::tuple(in_form_of(others, parts)),
        (Some(IValue::List(others)), IValue::List(parts)) => {
            IValue::list(in_form_of(&others.borrow(), &parts.borrow()))
        }
        _ => value.clone(),
    };
    values.iter().enumerate().map(of).collect()
}

/// The message of an exception without the name of a class of Python before it.
pub(crate) fn message(stop: &Stop) -> Option<String> {
    let message = &stop.exception()?.message;
    let is_class = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_')
    };
    let rest = message.split_once(':').filter(|(class, _)| is_class(class) && class.ends_with("Error"));
    Some(rest.map_or(message.as_str(), |(_, rest)| rest).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitopt_core::interpreter::{Exception, Reason};

    #[test]
    fn numbers_and_messages_have_one_form() {
        let tensor = IValue::Tensor(jitopt_core::tensor::Tensor::scalar(
            jitopt_core::tensor::Scalar::Int(8),
            jitopt_core::tensor::DType::Long,
            jitopt_core::tensor::Precision::Typed,
        ));
        let form = in_form_of(&[IValue::tuple([IValue::Int(8)])], &[IValue::tuple([tensor.clone()])]);
        assert!(matches!(&form[0], IValue::Tuple(parts) if matches!(parts[0], IValue::Int(8))));
        let kept = in_form_of(&[IValue::None], &[tensor]);
        assert!(kept[0].tensor().is_some());
        let raised = |text: &str| {
            let (class, message) = ("torch.jit.Error".to_owned(), text.to_owned());
            self::message(&Stop::new(Reason::Raised(Exception { class, message })))
        };
        assert_eq!(raised("AssertionError: big: 3"), raised("big: 3"));
        assert_ne!(raised("AssertionError: big"), raised("small"));
    }
}
