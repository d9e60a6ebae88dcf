import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kubernetesChecks } from './settings.ts'

const { kubernetes } = kubernetesChecks

test('both modes are settings of a cluster, and warm pods those of one of them', () => {
  for (const value of [{}, { mode: 'pods' }, { mode: 'agent-sandbox' }, { mode: 'agent-sandbox', warmPods: 0 }]) {
    assert.ok(kubernetes.fits(value), JSON.stringify(value))
    assert.deepEqual(kubernetes.issues(value, '/kubernetes'), [])
  }
})

test('another mode, warm pods out of range and warm pods without pools are refused with the path', () => {
  const cases = [
    [{ mode: 'jobs' }, '/kubernetes/mode'],
    [{ mode: 'agent-sandbox', warmPods: -1 }, '/kubernetes/warmPods'],
    [{ mode: 'agent-sandbox', warmPods: 1.5 }, '/kubernetes/warmPods'],
    [{ warmPods: 2 }, '/kubernetes/warmPods'],
    [{ mode: 'pods', warmPods: 2 }, '/kubernetes/warmPods'],
  ] as const
  for (const [value, path] of cases) {
    assert.equal(kubernetes.fits(value), false, JSON.stringify(value))
    const [first] = kubernetes.issues(value, '/kubernetes')
    assert.equal(first?.path, path)
  }
})
