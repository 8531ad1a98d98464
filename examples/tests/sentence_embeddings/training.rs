//! The loaded model is trained further.

use burn::{
    backend::{Autodiff, NdArray},
    module::AutodiffModule,
    optim::{AdamConfig, GradientsParams, Optimizer},
    tensor::{
        Distribution, ElementConversion, Tensor, TensorData,
        backend::{AutodiffBackend, Backend},
    },
};
use mha::{MhaInput, MultiHeadAttention};

use crate::{
    bert::{Batch, Bert},
    encoder::Encoder,
    tiny,
};

/// Pairs of sentences of different lengths, and the cosine that they are to have.
const PAIRS: [(&str, &str, f32); 4] = [
    ("The dog barks.", "A hound is loud.", 0.95),
    ("The cat sleeps on the mat.", "A cat is in the tree.", 0.8),
    ("The dog barks.", "The cat sleeps on the mat.", 0.1),
    ("A hound is loud.", "é", 0.0),
];

/// The id of a padded place.
const PADDING: usize = 0;

#[test]
fn training_the_attention_reaches_every_layer_and_lowers_the_loss() {
    attention_learns::<Autodiff<NdArray>>("learns");
}

fn attention_learns<B: AutodiffBackend>(name: &str) {
    let device = B::Device::default();
    B::seed(&device, 7);
    let encoder = Encoder::<B>::open(&tiny::model(name), device.clone()).unwrap();
    let sides = sides::<B>(&encoder, &device);
    let unchanged = sides_without_gradients(&encoder, &device);
    let loss_without_dropout =
        |model: &Bert<B>| loss(&model.valid(), &unchanged).into_scalar().elem::<f32>();
    let mut model = encoder.model.clone();
    let before = loss_without_dropout(&model);

    let mut optimizers: Vec<_> = model.blocks.iter().map(|_| AdamConfig::new().init()).collect();
    for step in 0..80 {
        let mut gradients = loss(&model, &sides).backward();
        if step == 0 {
            for (layer, block) in model.blocks.iter().enumerate() {
                every_parameter_has_a_gradient(layer, &block.attention, &gradients);
            }
            only_padding_has_none(&model, &gradients);
        }
        for (block, optimizer) in model.blocks.iter_mut().zip(&mut optimizers) {
            let own = GradientsParams::from_module(&mut gradients, &block.attention);
            block.attention = optimizer.step(0.01, block.attention.clone(), own);
        }
    }
    let after = loss_without_dropout(&model);
    assert!(after < before / 2.0, "the loss was {before} and is {after}");

    // The rest of the model is as it was loaded.
    for (trained, loaded) in model.blocks.iter().zip(&encoder.model.blocks) {
        let weights = [trained, loaded].map(|block| block.up.weight.val().into_data());
        assert_eq!(weights[0], weights[1]);
        let weights = [trained, loaded].map(|block| block.attention.query.weight.val().into_data());
        assert_ne!(weights[0], weights[1]);
    }
}

/// Training drops attention weights and features at random; without gradients nothing is dropped.
#[test]
fn dropout_is_of_training_alone() {
    type B = Autodiff<NdArray>;
    let device = Default::default();
    let encoder = Encoder::<B>::open(&tiny::model("dropout"), device).unwrap();
    let tokens = Tensor::<B, 3>::random([1, 5, 12], Distribution::Default, &device);
    let attention = &encoder.model.blocks[1].attention;
    let attend = || attention.forward(MhaInput::self_attn(tokens.clone())).context.into_data();
    assert_ne!(attend(), attend());
    let [batch, _] = sides::<B>(&encoder, &device);
    let twice = [(); 2].map(|()| encoder.model.embed(&batch).into_data());
    assert_ne!(twice[0], twice[1]);
    let [batch, _] = sides_without_gradients(&encoder, &device);
    let model = encoder.model.valid();
    let twice = [(); 2].map(|()| model.embed(&batch).into_data());
    assert_eq!(twice[0], twice[1]);
}

/// The sentences of all pairs: the first of each, and the second.
fn sides<B: Backend>(encoder: &Encoder<B>, device: &B::Device) -> [Batch<B>; 2] {
    let sides = [PAIRS.map(|(first, ..)| first), PAIRS.map(|(_, second, _)| second)];
    sides.map(|side| {
        let batch = encoder.word_pieces.batch::<B>(&side, device).unwrap();
        assert!(batch.lengths.iter().min() < batch.lengths.iter().max(), "some are padded");
        batch
    })
}

fn sides_without_gradients<B: AutodiffBackend>(
    encoder: &Encoder<B>,
    device: &B::Device,
) -> [Batch<B::InnerBackend>; 2] {
    sides(encoder, device)
        .map(|Batch { tokens, lengths }| Batch { tokens: tokens.inner(), lengths })
}

/// The mean square of what each pair's cosine is off.
fn loss<B: Backend>(model: &Bert<B>, sides: &[Batch<B>; 2]) -> Tensor<B, 1> {
    let [first, second] = sides.each_ref().map(|batch| model.embed(batch));
    let cosines = (first * second).sum_dim(1);
    let wanted = TensorData::new(PAIRS.map(|(.., cosine)| cosine).to_vec(), [PAIRS.len(), 1]);
    let wanted = Tensor::<B, 2>::from_data(wanted, &cosines.device());
    (cosines - wanted).square().mean()
}

fn every_parameter_has_a_gradient<B: AutodiffBackend>(
    layer: usize,
    attention: &MultiHeadAttention<B>,
    gradients: &B::Gradients,
) {
    let largest = |gradient: Option<Tensor<B::InnerBackend, 1>>, name: &str| {
        let gradient = gradient.unwrap_or_else(|| panic!("{name} of layer {layer} has none"));
        let largest = gradient.abs().max().into_scalar().elem::<f32>();
        assert!(largest.is_finite(), "{name} of layer {layer}: {largest}");
        largest
    };
    for (name, linear) in [
        ("query", &attention.query),
        ("key", &attention.key),
        ("value", &attention.value),
        ("output", &attention.output),
    ] {
        let weight = linear.weight.val().grad(gradients).map(|gradient| gradient.flatten(0, 1));
        let weight = largest(weight, name);
        assert!(weight > 1e-5, "{name} of layer {layer}: {weight}");
        let bias = linear.bias.as_ref().expect("BERT has them all").val().grad(gradients);
        let bias = largest(bias, name);
        if name == "key" {
            // It adds the same to all scores of a row, which the softmax takes away again: what is
            // there is rounding.
            assert!(bias > 0.0 && bias < 1e-3 * weight, "key bias of layer {layer}: {bias}");
        } else {
            assert!(bias > 1e-5, "{name} bias of layer {layer}: {bias}");
        }
    }
}

/// The embedding of the padding's id is told to go nowhere, that of a word piece is.
fn only_padding_has_none<B: AutodiffBackend>(model: &Bert<B>, gradients: &B::Gradients) {
    let gradient = model.embeddings.tokens.weight.val().grad(gradients).unwrap();
    let largest = gradient.abs().max_dim(1).into_data().convert::<f32>().into_vec::<f32>().unwrap();
    assert_eq!(largest[PADDING], 0.0);
    let dog = 6;
    assert!(largest[dog] > 1e-5, "{}", largest[dog]);
}
