// Package docs is the documents. Its tests keep them true: every command in a block of README.md and of these folders is run in
// order against real programs, every link leads somewhere, every test that a document names is there, the routes are those that
// the gateway serves, and the table of field requirements is what the tests say of themselves.
package docs
