//! What the encoder computes of each token on its own.

use burn::{
    backend::{Autodiff, NdArray},
    tensor::{DType, Tensor, activation, backend::Backend},
};

use crate::{bert::gelu::gelu, encoder::Encoder, tiny};

/// From -12 to 12, 0 among them, and what is farther out.
fn numbers() -> Vec<f32> {
    let around = (-1201..=1201).map(|i| i as f32 * 0.01);
    around.chain([-1e30, -300.0, -40.0, 40.0, 300.0, 1e30]).collect()
}

fn tensor<B: Backend>(dtype: DType) -> Tensor<B, 1> {
    Tensor::from_data(&numbers()[..], (&Default::default(), dtype))
}

fn wide<B: Backend>(tensor: Tensor<B, 1>) -> Vec<f64> {
    tensor.cast(DType::F64).into_data().to_vec().unwrap()
}

#[test]
fn gelu_is_that_of_burn() {
    let exact = wide(activation::gelu(tensor::<NdArray>(DType::F64)));
    let ours = wide(gelu(tensor::<NdArray>(DType::F32)));
    for ((x, exact), ours) in numbers().into_iter().zip(exact).zip(ours) {
        let rounding = exact.abs() * f64::from(f32::EPSILON);
        assert!((ours - exact).abs() <= 1e-6 + rounding, "{x}: {ours} for {exact}");
    }
}

/// Not held against Burn's, which is that of another formula. A quotient's gradient is to 5e-5 on NdArray.
#[test]
fn the_gradient_of_gelu_is_exact() {
    let x = tensor::<Autodiff<NdArray>>(DType::F32).require_grad();
    let ours = wide(x.grad(&gelu(x.clone()).sum().backward()).unwrap());
    let values = wide(activation::gelu(tensor::<NdArray>(DType::F64)));
    for ((x, value), ours) in numbers().into_iter().map(f64::from).zip(values).zip(ours) {
        let share = if x == 0.0 { 0.5 } else { value / x };
        let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let exact = share + x * density;
        assert!((ours - exact).abs() <= 3e-5, "{x}: {ours} for {exact}");
    }
}

/// More tokens than go through the feed-forward network together.
#[test]
fn a_large_batch_gives_each_sentence_what_it_gets_alone() {
    let encoder = Encoder::<NdArray>::open(&tiny::model("large"), Default::default()).unwrap();
    let three = ["The dog barks.", "The cat sleeps on the mat.", "A hound is loud."];
    let alone = three.map(|sentence| encoder.embed_together(&[sentence]).unwrap().remove(0));
    let many: Vec<_> = three.into_iter().cycle().take(100).collect();
    let together = encoder.embed_together(&many).unwrap();
    assert_eq!(together.len(), many.len());
    for (vector, alone) in together.iter().zip(alone.iter().cycle()) {
        mha_tests::assert_close(vector, &mha_tests::wide(alone), 1e-6);
    }
}
