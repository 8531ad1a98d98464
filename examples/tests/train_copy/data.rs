//! Sequences and batches.

use std::sync::Arc;

use burn::{
    backend::NdArray,
    data::dataloader::DataLoader,
    tensor::{Int, Tensor},
};

use crate::{
    epochs::Epochs,
    loader::CopyLoader,
    task::{CopyBatch, CopyTask, Split},
};

const TASK: CopyTask = CopyTask { vocabulary: 7, length: 5, seed: 3 };

fn values(tensor: Tensor<NdArray, 2, Int>) -> Vec<i64> {
    tensor.into_data().convert::<i64>().into_vec().unwrap()
}

fn targets(task: CopyTask, split: Split, epoch: usize, index: usize) -> Vec<i64> {
    values(task.batch::<NdArray>(split, epoch, index, 4, &Default::default()).targets)
}

fn epoch_tokens(loader: &CopyLoader<NdArray>) -> Vec<Vec<i64>> {
    loader.iter().map(|batch| values(batch.tokens)).collect()
}

#[test]
fn a_sequence_is_symbols_separator_blanks() {
    let batch = TASK.batch::<NdArray>(Split::Train, 1, 0, 3, &Default::default());
    assert_eq!((batch.tokens.dims(), batch.targets.dims()), ([3, 11], [3, 5]));
    let (tokens, targets) = (values(batch.tokens), values(batch.targets));
    for (tokens, targets) in tokens.chunks(11).zip(targets.chunks(5)) {
        assert_eq!(&tokens[..5], targets);
        assert_eq!(&tokens[5..], [7, 8, 8, 8, 8, 8]);
    }
}

#[test]
fn every_symbol_is_drawn_about_as_often() {
    let batch = TASK.batch::<NdArray>(Split::Train, 1, 0, 1400, &Default::default());
    let mut counts = [0; 7];
    values(batch.targets).into_iter().for_each(|symbol| counts[symbol as usize] += 1);
    // 1000 expected of each, with a standard deviation of 29
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn seed_split_epoch_and_index_decide_a_batch() {
    let first = targets(TASK, Split::Train, 1, 2);
    assert_eq!(first, targets(TASK, Split::Train, 1, 2));
    assert_ne!(first, targets(TASK, Split::Train, 1, 3));
    assert_ne!(first, targets(TASK, Split::Train, 2, 2));
    assert_ne!(first, targets(TASK, Split::Train, 2, 1));
    assert_ne!(first, targets(TASK, Split::Valid, 1, 2));
    assert_ne!(first, targets(TASK, Split::Test, 1, 2));
    assert_ne!(first, targets(CopyTask { seed: 4, ..TASK }, Split::Train, 1, 2));
}

#[test]
fn a_loader_that_begins_later_gives_the_later_epochs() {
    let (device, epochs) = (Default::default(), Epochs { steps: 7, steps_per_epoch: 3 });
    let whole = CopyLoader::<NdArray>::train(TASK, 4, epochs, 1, &device);
    let [first, second, third] = [(); 3].map(|()| epoch_tokens(&whole));
    assert_eq!([first.len(), second.len(), third.len()], [3, 3, 1]);
    assert_ne!(first, second);

    let resumed = CopyLoader::<NdArray>::train(TASK, 4, epochs, 2, &device).to_device(&device);
    let again: Vec<_> = resumed.iter().map(|batch| values(batch.tokens)).collect();
    assert_eq!(again, second);
}

#[test]
fn a_fixed_loader_repeats_itself_and_ends_with_what_is_left() {
    let loader = CopyLoader::<NdArray>::fixed(TASK, 4, Split::Valid, 10, &Default::default());
    let tokens = epoch_tokens(&loader);
    assert_eq!(tokens.iter().map(Vec::len).collect::<Vec<_>>(), [44, 44, 22]);
    assert_eq!(tokens, epoch_tokens(&loader));
    assert_eq!(loader.num_items(), 10);
}

#[test]
fn slices_together_are_the_whole() {
    let device = Default::default();
    let epochs = Epochs { steps: 6, steps_per_epoch: 3 };
    let train = || CopyLoader::<NdArray>::train(TASK, 4, epochs, 1, &device);
    let valid = || CopyLoader::<NdArray>::fixed(TASK, 4, Split::Valid, 10, &device);
    for (loader, slices, items) in [
        // In the middle of a batch and past the end, too.
        (train(), [train().slice(0, 4), train().slice(4, 9), train().slice(9, 20)], [4, 5, 3]),
        (valid(), [valid().slice(0, 3), valid().slice(3, 10), valid().slice(10, 12)], [3, 7, 0]),
    ] {
        for _epoch in 0..2 {
            let whole: Vec<_> = epoch_tokens(&loader).concat();
            let of = |slice: &Arc<dyn DataLoader<NdArray, CopyBatch<NdArray>>>| -> Vec<i64> {
                slice.iter().flat_map(|batch| values(batch.tokens)).collect()
            };
            assert_eq!(slices.iter().map(of).collect::<Vec<_>>().concat(), whole);
        }
        assert_eq!(slices.each_ref().map(|slice| slice.num_items()), items);
    }
}

#[test]
fn epochs_share_out_all_the_steps() {
    let epochs = Epochs { steps: 7, steps_per_epoch: 3 };
    assert_eq!(epochs.count(), 3);
    assert_eq!([1, 2, 3].map(|epoch| epochs.steps_in(epoch)), [3, 3, 1]);
    assert_eq!([1, 2, 3, 4].map(|epoch| epochs.steps_before(epoch)), [0, 3, 6, 7]);
    assert_eq!(Epochs { steps: 2, steps_per_epoch: 5 }.count(), 1);
}
