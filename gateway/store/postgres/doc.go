// Package postgres is the store in a PostgreSQL database.
package postgres
