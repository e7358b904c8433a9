// Package kubernetes is a provider whose machines are pods. It creates and deletes exact pods with the REST API of a
// cluster, so that the scaler decides which pod ends, and a busy one never does.
//
// # Who decides what a pod is
//
// A pod template: an object PodTemplate of the cluster, which the cluster's administrator writes and a pool's settings
// name. Pools are written over Reelay's API by people who may have no rights in the cluster. So a pool cannot choose an
// image, a command, a volume or a service account, and all templates and pods are in one namespace, which the
// configuration of control names. The template is read for each batch of pods. Kubernetes itself has checked it when it
// was written. The provider adds to it the labels that make the pod its own, restartPolicy Never, and the variables with
// which the agent registers as this worker.
//
// The agent's key is in a Secret that the template refers to. Control neither reads nor writes Secrets, and the provider
// refuses a template that has the key as plain text.
//
// # What is authoritative
//
// The API server is. The provider keeps no list of pods: a list is all pages of one version of the cluster, or an error.
// A pod belongs to a pool if it has both labels and no other controller owns it. It is deleted only in the version in
// which that was seen, so a pod that somebody takes over in between is left alone.
//
// There is no permanent watch. The scaler asks every five seconds anyway, API servers answer consistent lists from
// memory, and a watch would need a cache and a goroutine that only one of all control processes uses. What lists cannot
// tell is why a pod vanished between two of them. For this, and only when it happens, List watches from the version of
// the list before: the cluster then sends what happened since, and the last state of the pod says whether it was evicted,
// preempted or lost with its node. If the cluster has forgotten that version, the reason stays unknown, and the pod is
// merely gone.
//
// # What survives
//
// The provider remembers, per pool, the pods of the newest list, and for ten minutes the pods that it gave up or that
// were taken away. Another process, or this one after a restart, knows only what the cluster still has: a pod that was
// given up just before then counts as one that ended by itself.
package kubernetes
