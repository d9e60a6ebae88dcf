import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { createRefresher } from './discovered-tools.ts'

const turn = () => new Promise<void>((resolve) => process.nextTick(resolve))

test('concurrent requests share one refresh, and the next refresh waits for the minimum interval', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 })
  try {
    let refreshes = 0
    const refresher = createRefresher(async () => {
      refreshes += 1
      return true
    })
    for (let wishes = 0; wishes < 100; wishes++) refresher.request()
    mock.timers.tick(0)
    await turn()
    assert.equal(refreshes, 1)
    for (let wishes = 0; wishes < 100; wishes++) refresher.request()
    mock.timers.tick(999)
    await turn()
    assert.equal(refreshes, 1)
    mock.timers.tick(1)
    await turn()
    assert.equal(refreshes, 2)
    refresher.request()
    refresher.stop()
    mock.timers.tick(100_000)
    assert.equal(refreshes, 2)
  } finally {
    mock.timers.reset()
  }
})

test('refreshes of a server that announces changes and has none grow further apart', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000_000 })
  try {
    let refreshes = 0
    const refresher = createRefresher(async () => {
      refreshes += 1
      refresher.request()
      return false
    })
    refresher.request()
    for (let second = 0; second < 600; second++) {
      mock.timers.tick(1_000)
      await turn()
    }
    assert.ok(refreshes < 20, `${refreshes} refreshes in ten minutes`)
  } finally {
    mock.timers.reset()
  }
})
