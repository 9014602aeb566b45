// Package schema holds the protocol's JSON Schemas and validates documents against them.
//
// It promises that nothing is fetched: every file is registered under its $id, and a $ref to anything else is an error.
// Formats are asserted. An error names each offending field by its path, as a *wire.FieldError.
//
// schemas/ is a copy of the published files, which are data and are not edited here; schemas/README.md says where they
// come from and what was added to them. Tests use the package schematest.
//
// # Decisions
//
// Two patterns of the protocol begin with a negative look-ahead, which Go's regexp lacks on purpose. Instead of an engine
// that can be made to run for ever, regexp.go matches "^(?!A)B" as "not ^A, and ^B".
package schema
