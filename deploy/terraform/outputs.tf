output "subnetwork" {
  description = "For settings.subnetwork of a pool."
  value       = google_compute_subnetwork.workers.id
}

output "worker_service_account" {
  description = "For settings.serviceAccount of a pool."
  value       = google_service_account.worker.email
}

output "control_service_account" {
  description = "The account that control runs as."
  value       = google_service_account.control.email
}

output "template" {
  description = "For settings.template of a pool, if a template was asked for."
  value       = one(google_compute_instance_template.worker[*].id)
}
