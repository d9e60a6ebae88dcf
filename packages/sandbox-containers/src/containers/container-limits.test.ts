import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import type { ContainerEngine } from '../engines/engine.ts'
import { enforcedBy, refusalOf } from './container-limits.ts'

const limits = { wallMs: 1, cpuMs: 1, memoryBytes: 1, pids: 1, diskBytes: 1 } as unknown as SandboxLimits
const strict = { limits, network: 'none', strict: true } as const
const sockets = { hasSockets: true, reachesSockets: true }
const engine = {
  version: 'Docker',
  isLocal: true,
  hasKnownRuntime: true,
  cgroupVersion: 2,
} as unknown as ContainerEngine

test('memory on an engine that does not limit swap says so, and hardened refuses it', () => {
  const swapping = { ...engine, mayTakeSwap: true }
  const enforced = enforcedBy('docker', swapping, false)
  assert.equal(enforced.memoryBytes, 'memory without swap by docker; swap is not limited')
  assert.match(refusalOf(strict, swapping, enforced, sockets)?.reason ?? '', /does not enforce memoryBytes here/)
  assert.equal(refusalOf({ limits, network: 'none' }, swapping, enforced, sockets), undefined)
})

test('memory on an engine that limits swap is enforced by the control group, and hardened takes it', () => {
  const enforced = enforcedBy('docker', engine, false)
  assert.equal(enforced.memoryBytes, 'cgroup memory by docker')
  assert.equal(refusalOf(strict, engine, enforced, sockets), undefined)
})

test('a network is refused to a process that may not change owners, with another reason than by a kernel that forwards none', () => {
  const spec = { limits, network: { allow: [] } } as const
  const enforced = enforcedBy('docker', engine, false)
  const why = (found: typeof sockets): string => refusalOf(spec, engine, enforced, found)?.reason ?? ''
  assert.match(why({ hasSockets: false, reachesSockets: false }), /may not change owners/)
  assert.match(why({ hasSockets: true, reachesSockets: false }), /does not forward connections/)
  assert.equal(why(sockets), '')
})
