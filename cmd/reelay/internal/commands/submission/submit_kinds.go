package submission

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
)

// paramKinds are the types of the parameters of models, as their schemas have them.
type paramKinds struct {
	// of has the type of each parameter by model and name: string, number, integer, boolean, array or object.
	of      map[string]map[string]string
	aliases map[string][]string
}

// readParamKinds asks the API for the types. It knows none if the models cannot be read.
func readParamKinds(ctx context.Context, c *client.Client) *paramKinds {
	ctx, cancel := connect.Quickly(ctx)
	defer cancel()
	k := &paramKinds{of: map[string]map[string]string{}, aliases: map[string][]string{}}
	all, err := c.Models(ctx)
	if err != nil {
		return k
	}
	for _, m := range all {
		k.of[m.Name] = kindsOf(m.ParamsSchema)
	}
	aliases, err := c.ModelAliases(ctx)
	if err != nil {
		return k
	}
	for _, alias := range aliases {
		for _, m := range alias.Models {
			k.aliases[alias.Name] = append(k.aliases[alias.Name], m.Name)
		}
	}
	return k
}

func kindsOf(schema json.RawMessage) map[string]string {
	var s struct {
		Properties map[string]struct {
			Type any
			Enum []any
		}
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	kinds := map[string]string{}
	for name, property := range s.Properties {
		switch of := property.Type.(type) {
		case string:
			kinds[name] = of
		case []any: // such as ["string", "null"]
			for _, one := range of {
				if one == "null" {
					continue
				}
				if kinds[name] != "" {
					kinds[name] = "any"
					break
				}
				kinds[name], _ = one.(string)
			}
		case nil:
			for _, one := range property.Enum {
				if _, text := one.(string); !text {
					kinds[name] = "any"
					break
				}
				kinds[name] = "string"
			}
		}
	}
	return kinds
}

// kind returns the type of a parameter of a model or an alias, or "" if it is unknown or differs between the
// models of the alias.
func (k *paramKinds) kind(model, param string) (kind string) {
	if k == nil {
		return ""
	}
	models := k.aliases[model]
	if models == nil {
		models = []string{model}
	}
	for _, m := range models {
		switch of := k.of[m][param]; {
		case of == "", of == kind:
		case kind != "":
			return ""
		default:
			kind = of
		}
	}
	return kind
}

// texts writes parameters of pairs that a model takes as texts as texts, whatever they look like: 7 in
// --param style=7. It asks for the model only if a value looks like something else.
func texts(ctx context.Context, c *client.Client, model string, f input.Fields, pairs []string) {
	var kinds *paramKinds
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if f[name] == nil || f[name][0] == '"' {
			continue
		}
		if kinds == nil {
			kinds = readParamKinds(ctx, c)
		}
		if kinds.kind(model, name) == "string" {
			f[name] = jsonText(value)
		}
	}
}

// Values as spreadsheets write them.
var (
	decimalComma = regexp.MustCompile(`^[-+]?[0-9]{1,3}((\.|\x{a0}|\x{202f}| |')?[0-9]{3})*,[0-9]+$`)
	thousands    = regexp.MustCompile(`^[-+]?[0-9]{1,3}([,'\x{a0}\x{202f} ][0-9]{3})+(\.[0-9]+)?$`)
	scientific   = regexp.MustCompile(`^[-+]?[0-9]([.,][0-9]+)?[eE][-+]?[0-9]+$`)
	percentage   = regexp.MustCompile(`^[-+]?[0-9.,]+ ?%$`)
	// In English, German, French, Spanish, Italian, Portuguese, Dutch, Polish and Russian
	cellError = regexp.MustCompile(`^#(N/A|REF!|VALUE!|DIV/0!|NAME\?|NUM!|NULL!|SPILL!|CALC!` +
		`|NV|BEZUG!|WERT!|ZAHL!|ÜBERLAUF!|KALK!|VALEUR!|NOM\?|NOMBRE!|NUL!|¡(REF|VALOR|NUM|NULO|DIV/0)!|N/D|¿NOMBRE\?` +
		`|RIF!|VALORE!|NOME\?|NULLO!|VALOR!|NÚM!|NULO!|N/B|VERW!|WAARDE!|NAAM\?|GETAL!|LEEG!|DEEL/0!` +
		`|ADR!|ARG!|NAZWA\?|LICZBA!|ZERO!|DZIEL/0!|Н/Д|ССЫЛКА!|ЗНАЧ!|ИМЯ\?|ЧИСЛО!|ПУСТО!|ДЕЛ/0!)$`)
	currency = regexp.MustCompile(`^([$€£¥] ?[0-9.,]+|[0-9.,]+ ?[$€£¥])$`)
)

// unreadableNumber says what is wrong with a cell where a number is expected. It returns "" if the cell may
// be one.
func unreadableNumber(cell string, whole bool) string {
	switch {
	case thousands.MatchString(cell):
		return "write numbers without marks between the thousands"
	case decimalComma.MatchString(cell):
		return "write numbers with a point, not a comma, such as 1.5"
	case percentage.MatchString(cell), currency.MatchString(cell):
		return "write the number alone, without a sign after or before it"
	case whole && scientific.MatchString(cell):
		return "a spreadsheet has shortened the number: format the cells as numbers without decimals, and save again"
	case strings.HasPrefix(cell, "'"):
		return "write the number without the apostrophe"
	}
	return ""
}

// booleans are the words of spreadsheets in the languages of cellError. They are read only where a model
// takes a boolean: elsewhere they are words.
var booleans = map[string]bool{
	"TRUE": true, "WAHR": true, "VRAI": true, "VERDADERO": true, "VERO": true, "VERDADEIRO": true, "WAAR": true, "PRAWDA": true,
	"ИСТИНА": true,
	"FALSE":  false, "FALSCH": false, "FAUX": false, "FALSO": false, "ONWAAR": false, "FAŁSZ": false, "ЛОЖЬ": false,
}

// spreadsheetValue returns TRUE and FALSE, as spreadsheets write them, in JSON.
func spreadsheetValue(cell string) json.RawMessage {
	switch cell {
	case "TRUE", "True":
		return json.RawMessage("true")
	case "FALSE", "False":
		return json.RawMessage("false")
	}
	return input.JSONValue(cell)
}

// errCell is the problem of a cell that a spreadsheet could not compute.
func errCell(column, cell string) error {
	return fmt.Errorf("%s is %s, an error of the spreadsheet: correct the cell", column, cell)
}
