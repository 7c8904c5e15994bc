"""A dashboard that mounts in your application; it needs what the extra ``dashboard`` installs."""

from gotasks_dashboard._app import Dashboard, dashboard
from gotasks_dashboard._permissions import Authorize, Permission, local_only

__all__ = ["Authorize", "Dashboard", "Permission", "dashboard", "local_only"]
