import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jailCommand, jailRoot } from './jail.ts'

const jail = {
  bubblewrap: '/usr/bin/bwrap',
  firecracker: { program: '/opt/release/firecracker-v1', jailer: '/opt/release/jailer-v1', version: '1.10.1' },
  base: '/run/m-1',
  imageFolder: '/store/images/a',
  uid: 70_001,
}

test('a machine is jailed under a uid of its own, in namespaces without a network, with its image read-only', async () => {
  assert.equal(jailRoot(jail.firecracker.program, jail.base), '/run/m-1/firecracker-v1/machine/root')
  const words = await jailCommand(jail)
  const text = words.join(' ')
  const root = '/jail/firecracker-v1/machine/root'
  for (const part of [
    '/usr/bin/bwrap --unshare-ipc --unshare-pid --unshare-net --unshare-uts',
    '--clearenv --hostname machine --cap-drop ALL --cap-add CAP_SYS_ADMIN',
    '--ro-bind /opt/release /opt/release --dev-bind /run/m-1 /jail',
    `--ro-bind /store/images/a ${root}/image`,
    '/opt/release/jailer-v1 --id machine --exec-file /opt/release/firecracker-v1 --uid 70001 --gid 70001',
    '--chroot-base-dir /jail --resource-limit no-file=1024 -- --api-sock /api.sock',
  ]) {
    assert.ok(text.includes(part), `${part} is not in ${text}`)
  }
  assert.ok(!text.includes('/snapshot'))
})

test('a machine can write a snapshot that it is taken of, and not the one that it begins from', async () => {
  for (const [writable, bind] of [
    [true, '--bind'],
    [false, '--ro-bind'],
  ] as const) {
    const words = await jailCommand({ ...jail, snapshot: { folder: '/run/s-1', writable } })
    const text = words.join(' ')
    assert.ok(text.includes(` ${bind} /run/s-1 /jail/firecracker-v1/machine/root/snapshot `), text)
  }
})
