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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_wants_are_met_whole_and_large_ones_share_the_rest() {
        for (room, wants, shares) in [
            (100, vec![10, 1000, 20, 1000], vec![10, 35, 20, 35]),
            (100, vec![10, 20], vec![10, 20]),
            (10, vec![100, 100, 100], vec![3, 3, 4]),
            (0, vec![5], vec![0]),
            (5, vec![], vec![]),
        ] {
            assert_eq!(fair(room, &wants), shares, "{room} among {wants:?}");
        }
    }
}
