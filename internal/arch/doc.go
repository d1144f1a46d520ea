// Package arch holds the tests of the project's own structure: who imports whom, and which rule has a test.
package arch
