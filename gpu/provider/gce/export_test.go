package gce

// Permissions returns what a pool with all settings needs.
func Permissions() []string {
	all := Settings{Project: "p", Image: "i", Template: "t", WeightsDisk: "d", ServiceAccount: "a", NetworkTags: []string{"t"},
		ExternalIP: true}
	return (&examined{machine: &machine{s: &all}}).neededPermissions()
}
