// Package sqlite is the store in one file. See store for what every store promises.
package sqlite
