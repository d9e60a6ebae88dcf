#!/usr/bin/busybox sh
# Process 1 of a container of Proxmox, as root of the container, until it becomes the init of the sandbox.
#
#   network up → agent listens → an owner connects and names uid and sizes → memory file systems → init as that uid,
#   in a network of its own
#
# When it ends, the container ends: nothing here goes on after an error.
set -eu
umask 022
PATH=/usr/bin:/usr/sbin
export PATH
go=/run/gantry-go

# Proxmox writes the address of net0 into this file of a Debian container.
address=$(busybox awk '$1 == "iface" { own = $2 == "eth0" && $3 == "inet" } own && $1 == "address" { print $2; exit }' /etc/network/interfaces)
busybox ip link set lo up
busybox ip address add "$address" dev eth0
busybox ip link set eth0 up

busybox mkdir -p /run
busybox rm -f "$go"
busybox mkfifo -m 600 "$go"
busybox env -i PATH="$PATH" /gantry/node --max-old-space-size=32 --max-semi-space-size=1 /gantry/agent.mjs "${address%/*}" >"$go" &
read -r uid work shm <"$go"
busybox rm -f "$go"

busybox mount -t tmpfs -o "rw,exec,nosuid,nodev,size=$work,mode=0700,uid=$uid,gid=$uid" work /work
busybox mkdir -p /dev/shm
busybox mount -t tmpfs -o "rw,nosuid,nodev,noexec,size=$shm,mode=1777" shm /dev/shm
# Pseudoterminals; those that stay are the container's own. Proxmox allows no mount over /proc and /sys.
for device in ptmx tty; do
  busybox umount "/dev/$device" 2>/dev/null || true
  busybox rm -f "/dev/$device" 2>/dev/null || true
done
busybox mount -t tmpfs -o "ro,nosuid,nodev,noexec,size=4096,mode=0755" nothing /dev/pts

# Programs are killed before the agent when memory runs out.
echo 1000 >/proc/self/oom_score_adj
cd /
# The agent stays in the network of the container; programs have one of their own with nothing but a loopback.
exec busybox env -i PATH="$PATH" busybox unshare --net --ipc --uts busybox sh -c \
  'busybox ip link set lo up && busybox hostname sandbox && exec busybox nsenter -S "$0" -G "$0" /gantry/init init --pipes /gantry/filters/base' "$uid"
