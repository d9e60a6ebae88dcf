import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readLayout } from './cgroup-trees.ts'

test('cgroup v1 and hybrid: readLayout finds each controller at its mount point, and the v2 hierarchy beside them', () => {
  const cgroup = '9:name=systemd:/\n8:pids:/\n4:memory:/process/b0\n2:cpuacct,cpu:/\n0::/\n'
  const mountinfo = [
    '31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw',
    '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct',
    '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory',
    '39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids',
    '40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd',
    '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
  ].join('\n')
  assert.deepEqual(
    readLayout(cgroup, mountinfo).map(({ version, folder }) => `${version} ${folder}`),
    [
      '1 /sys/fs/cgroup/cpu,cpuacct',
      '1 /sys/fs/cgroup/memory/process/b0',
      '1 /sys/fs/cgroup/pids',
      '1 /sys/fs/cgroup/systemd',
      '2 /sys/fs/cgroup/unified',
    ],
  )
})

test('cgroup v2: readLayout finds the group of a systemd service below the single mount', () => {
  const mountinfo = '30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n'
  assert.deepEqual(readLayout('0::/system.slice/gantry.service\n', mountinfo), [
    { version: 2, controllers: [], folder: '/sys/fs/cgroup/system.slice/gantry.service' },
  ])
})

test('readLayout resolves a group below a container mount and drops a group outside of it', () => {
  const mountinfo = '30 23 0:26 /docker/abc /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n'
  const [seen] = readLayout('4:memory:/docker/abc/inner\n', mountinfo)
  assert.equal(seen?.folder, '/sys/fs/cgroup/mem ory/inner')
  assert.equal(readLayout('4:memory:/docker/abc\n', mountinfo)[0]?.folder, '/sys/fs/cgroup/mem ory')
  assert.deepEqual(readLayout('4:memory:/docker/abcdef\n', mountinfo), [])
  assert.deepEqual(readLayout('4:memory:/\n', mountinfo), [])
})

test('readLayout returns no trees for text that it cannot parse', () => {
  assert.deepEqual(readLayout('', ''), [])
  assert.deepEqual(readLayout('nonsense\n::\n', 'a - b\n - \n1 2 3\n'), [])
})
