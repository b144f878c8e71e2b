//! The name that was probably meant.

/// The candidate nearest to `name` by edit distance, if one is near enough to be a slip of the pen.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = (name.chars().count() / 3).max(2);
    let distances = candidates.map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate));
    distances.filter(|(distance, _)| *distance <= far).min().map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_a_stranger_is_not() {
        let names = ["max_iterations", "queue_max", "args"];
        assert_eq!(nearest("max_iteration", names.into_iter()), Some("max_iterations"));
        assert_eq!(nearest("quuee_max", names.into_iter()), Some("queue_max"));
        assert_eq!(nearest("colour", names.into_iter()), None);
    }
}
