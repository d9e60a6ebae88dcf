import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sweepContainerd } from './containerd.ts'
import { type ContainerdClient, ContainerdError } from './containerd-client.ts'

const { signal } = new AbortController()

/** A client of a containerd with these views of images, of which one cannot be removed. */
function clientWith(views: readonly string[], stuck: string, removed: string[]): ContainerdClient {
  const labels = { 'dev.gantry.owner': 'dead' }
  return {
    address: { socket: '/none', namespace: 'test' },
    async call(name: string, request: { readonly key?: string }) {
      if (name === 'containers.v1.Containers/List') return { containers: [] }
      assert.equal(name, 'snapshots.v1.Snapshots/Remove')
      if (request.key === stuck) throw new ContainerdError('precondition', 'snapshot has dependents')
      removed.push(request.key ?? '')
      return {}
    },
    list: async () => [{ info: views.map((view) => ({ name: view, labels })) }],
  } as unknown as ContainerdClient
}

test('a view of an image that cannot be removed leaves containerd usable, and the other views are removed', async () => {
  const removed: string[] = []
  const remover = { remove: async () => true, expect: () => undefined, close: async () => undefined }
  const client = clientWith(['one', 'two', 'three'], 'two', removed)
  assert.deepEqual(await sweepContainerd(client, 'overlayfs', remover, () => true, signal), [])
  assert.deepEqual(removed, ['one', 'three'])
})
