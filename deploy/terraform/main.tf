# What Reelay needs in a project to run workers on Compute Engine: a network without access
# from outside, an account for workers, and an account for control that can make machines.

resource "google_project_service" "apis" {
  for_each = toset(["compute.googleapis.com", "cloudresourcemanager.googleapis.com"])

  project            = var.project
  service            = each.value
  disable_on_destroy = false
}

resource "google_compute_network" "workers" {
  project                 = var.project
  name                    = "${var.name}-workers"
  auto_create_subnetworks = false

  depends_on = [google_project_service.apis]
}

resource "google_compute_subnetwork" "workers" {
  project                  = var.project
  region                   = var.region
  name                     = "${var.name}-workers"
  network                  = google_compute_network.workers.id
  ip_cidr_range            = var.cidr
  private_ip_google_access = true
}

# Workers have no public address. They reach the API, and Google's registries, through NAT.
resource "google_compute_router" "workers" {
  project = var.project
  region  = var.region
  name    = "${var.name}-workers"
  network = google_compute_network.workers.id
}

resource "google_compute_router_nat" "workers" {
  project                            = var.project
  region                             = var.region
  name                               = "${var.name}-workers"
  router                             = google_compute_router.workers.name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
}

# A network without rules refuses what comes from outside. What goes out is allowed for the
# listed ports only. The metadata server and its DNS are always reachable.
resource "google_compute_firewall" "allow_egress" {
  project            = var.project
  name               = "${var.name}-workers-allow-egress"
  network            = google_compute_network.workers.id
  direction          = "EGRESS"
  priority           = 1000
  destination_ranges = ["0.0.0.0/0"]

  allow {
    protocol = "tcp"
    ports    = var.egress_ports
  }
}

resource "google_compute_firewall" "deny_egress" {
  project            = var.project
  name               = "${var.name}-workers-deny-egress"
  network            = google_compute_network.workers.id
  direction          = "EGRESS"
  priority           = 65000
  destination_ranges = ["0.0.0.0/0"]

  deny {
    protocol = "all"
  }
}

# Workers call Reelay's API with a key of their own. In the project they read images of
# containers and write logs, and nothing else.
resource "google_service_account" "worker" {
  project      = var.project
  account_id   = "${var.name}-worker"
  display_name = "Reelay workers"
}

resource "google_project_iam_member" "worker" {
  for_each = toset(["roles/artifactregistry.reader", "roles/logging.logWriter", "roles/monitoring.metricWriter"])

  project = var.project
  role    = each.value
  member  = google_service_account.worker.member
}

resource "google_service_account" "control" {
  project      = var.project
  account_id   = "${var.name}-control"
  display_name = "Reelay control"
}

# The calls of the provider gce and of reelay doctor --gce, and no others.
resource "google_project_iam_custom_role" "control" {
  project     = var.project
  role_id     = "${replace(var.name, "-", "_")}_control"
  title       = "Reelay control"
  description = "Makes, lists and deletes the machines of Reelay's pools."
  permissions = [
    "compute.acceleratorTypes.get",
    "compute.advice.capacity",
    "compute.advice.capacityHistory",
    "compute.disks.create",
    "compute.disks.get",
    "compute.disks.setLabels",
    "compute.disks.useReadOnly",
    "compute.globalOperations.list",
    "compute.images.get",
    "compute.images.getFromFamily",
    "compute.images.useReadOnly",
    "compute.instanceTemplates.get",
    "compute.instanceTemplates.useReadOnly",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "compute.instances.setTags",
    "compute.instances.simulateMaintenanceEvent",
    "compute.machineTypes.get",
    "compute.networks.get",
    "compute.regions.get",
    "compute.subnetworks.get",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.zoneOperations.get",
    "resourcemanager.projects.get",
  ]
}

resource "google_project_iam_member" "control" {
  project = var.project
  role    = google_project_iam_custom_role.control.id
  member  = google_service_account.control.member
}

# Control can start machines as the workers' account, and as no other.
resource "google_service_account_iam_member" "control_uses_worker" {
  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.control.member
}

resource "google_compute_instance_template" "worker" {
  count = var.template == null ? 0 : 1

  project      = var.project
  name_prefix  = "${var.name}-worker-"
  machine_type = var.template.machine_type

  disk {
    boot         = true
    auto_delete  = true
    source_image = var.template.image
    disk_size_gb = var.template.disk_gb
    disk_type    = var.template.disk_type
  }

  network_interface {
    subnetwork = google_compute_subnetwork.workers.id
  }

  scheduling {
    on_host_maintenance = "TERMINATE"
    automatic_restart   = false
  }

  service_account {
    email  = google_service_account.worker.email
    scopes = ["cloud-platform"]
  }

  lifecycle {
    create_before_destroy = true
  }
}
