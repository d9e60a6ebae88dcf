import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ownName } from '@gantry/sandbox/internal/process/sandbox-root'
import { sweepEngine } from './container-host.ts'

test('an owner of another boot is swept only after a process of the engine was seen on this machine', async () => {
  const [pid, start, boot, namespace, part] = ownName().split('-')
  const own = [pid, start, boot, namespace, part].join('-')
  const died = [2 ** 22 + 1, start, boot, namespace, part].join('-')
  const foreign = [pid, start, boot === 'ffffff' ? 'eeeeee' : 'ffffff', namespace, part].join('-')
  const sweeps: string[][] = []
  const sweeping = sweepEngine({
    isLocal: true,
    async sweep(isDead) {
      const dead = [own, died, foreign].filter(isDead)
      sweeps.push(dead)
      return dead
    },
  })
  await sweeping.first(new AbortController().signal)
  assert.deepEqual(sweeps, [[died]])
  sweeping.rest()
  sweeping.rest()
  await sweeping.close()
  assert.deepEqual(sweeps, [[died], [died, foreign]])
})
