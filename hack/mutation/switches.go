package main

import (
	"fmt"
	"go/token"
	"strings"
)

// The environment variables of a test program that has switches.
const (
	chosenVariable  = "MUTANT"          // The number of the mutant, 0 for none.
	reachedVariable = "MUTANTS_REACHED" // The file to which the program writes the numbers that its tests reach.
)

// switchesName is the name of the file that is added to the package. The file declares the functions that mutated
// expressions call.
const switchesName = "mutant_switches.go"

const switchesHead = `package %s

import (
	mutantCmp "cmp"
	mutantOS "os"
	mutantStrconv "strconv"
	mutantSync "sync"
)

var (
	mutantChosen, _ = mutantStrconv.Atoi(mutantOS.Getenv(%q))
	mutantFile      = mutantOS.Getenv(%q)
	mutantReached   mutantSync.Map
)

func mutantIs(n int) bool {
	if mutantFile == "" {
		return n == mutantChosen
	}
	if _, known := mutantReached.LoadOrStore(n, true); !known {
		file, err := mutantOS.OpenFile(mutantFile, mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer file.Close()
		file.WriteString(mutantStrconv.Itoa(n) + "\n")
	}
	return false
}

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface {
	mutantInteger | ~float32 | ~float64
}

func mutantMinus[T mutantNumber](n int, a T) T {
	if mutantIs(n) {
		return a
	}
	return -a
}

func mutantStep(n, step int) int {
	if mutantIs(n) {
		return -step
	}
	return step
}
`

// switches returns the text of the file that is added to the package.
func switches(packageName string) string {
	var text strings.Builder
	fmt.Fprintf(&text, switchesHead, packageName, chosenVariable, reachedVariable)
	for operator := range token.VAR {
		constraint, result := "mutantNumber", "T"
		switch operator {
		case token.ADD, token.SUB, token.MUL, token.QUO:
		case token.REM:
			constraint = "mutantInteger"
		case token.LSS, token.LEQ, token.GTR, token.GEQ:
			constraint, result = "mutantCmp.Ordered", "bool"
		default:
			continue
		}
		fmt.Fprintf(&text, "\nfunc %s[T %s](n int, a, b T) %s {\n", helper(operator), constraint, result)
		for i, c := range changes(operator) {
			fmt.Fprintf(&text, "\tif mutantIs(n + %d) {\n\t\treturn a %s b\n\t}\n", i, c.to)
		}
		fmt.Fprintf(&text, "\treturn a %s b\n}\n", operator)
	}
	return text.String()
}

// helper returns the name of the function that stands for an operator.
func helper(operator token.Token) string { return fmt.Sprintf("mutant%d", operator) }
