// Command apiserver is the API server of Kubernetes as it is released. Tests of the provider "kubernetes" run it on an
// etcd of their own.
package main

import (
	"os"
	_ "time/tzdata"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
