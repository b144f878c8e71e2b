//! How room is divided among those who want some of it.

/// Shares `room` out: nobody gets more than it wants, small wants are met whole, and the large ones share what is left
/// evenly.
pub(crate) fn fair(room: usize, wants: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|index| wants[*index]);
    let mut shares = vec![0; wants.len()];
    let (mut left, mut others) = (room, wants.len());
    for index in order {
        shares[index] = wants[index].min(left / others.max(1));
        left -= shares[index];
        others -= 1;
    }
    shares
}
