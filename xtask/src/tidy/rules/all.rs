//! The list of rules that an inspection asks. A rule that is not in it does not hold.

use super::{
    architecture, changelog, citations, comment_width, core_dependencies, crate_readmes, design_pages,
    detached_tasks, file_length, function_length, machine_paths, module_docs, names, parameters,
    replacements, sleeps, table_of_contents, traceability, unfinished,
};
use crate::tidy::finding::Finding;
use crate::tidy::tree::Tree;

pub const ALL: &[fn(&Tree) -> Vec<Finding>] = &[
    file_length::check,
    function_length::check,
    parameters::check,
    comment_width::check,
    names::check,
    table_of_contents::check,
    module_docs::check,
    unfinished::check,
    detached_tasks::check,
    sleeps::check,
    machine_paths::check,
    core_dependencies::check,
    architecture::check,
    design_pages::check,
    crate_readmes::check,
    citations::check,
    changelog::check,
    traceability::check,
    replacements::check,
];
