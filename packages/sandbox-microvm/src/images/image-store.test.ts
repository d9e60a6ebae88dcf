import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { findImage, listImages, pruneImages } from './image-store.ts'

/** A store with an image of each digest; the last one of a flavour is its newest. */
function storeWith(...images: readonly (readonly [flavour: string, digest: string])[]): string {
  const store = mkdtempSync(join(tmpdir(), 'gantry-store-'))
  for (const [index, [flavour, digest]] of images.entries()) {
    const folder = join(store, 'images', digest)
    mkdirSync(folder, { recursive: true })
    const createdAt = new Date(index * 1_000).toISOString()
    const description = { digest: `sha256:${digest}`, flavour, kernel: '6.1', createdAt, bytes: 5, labels: {} }
    writeFileSync(join(folder, 'image.json'), JSON.stringify(description))
    rmSync(join(store, 'images', flavour), { force: true })
    symlinkSync(digest, join(store, 'images', flavour))
  }
  return store
}

const [old, recent] = ['a'.repeat(64), 'b'.repeat(64)]

test('an image is found by its flavour, by its digest and by the name of the repository', async () => {
  const store = storeWith(['standard', old], ['standard', recent])
  try {
    for (const name of ['standard', 'gantry/sandbox:standard', `sha256:${recent}`, recent]) {
      assert.equal((await findImage(store, name)).digest, `sha256:${recent}`, name)
    }
    for (const name of ['full', '../standard', '', `sha256:${'c'.repeat(64)}`]) {
      await assert.rejects(findImage(store, name), { code: 'RUNTIME_UNAVAILABLE' }, name)
    }
  } finally {
    rmSync(store, { recursive: true })
  }
})

test('images are listed newest first, and those that a newer one replaced are removed', async () => {
  const store = storeWith(['standard', old], ['python', 'c'.repeat(64)], ['standard', recent])
  try {
    const listed = await listImages(store)
    assert.deepEqual(
      listed.map(({ digest, flavour }) => [digest.slice(7, 8), flavour]),
      [
        ['b', 'standard'],
        ['c', 'python'],
        ['a', undefined],
      ],
    )
    const removed = await pruneImages(store)
    assert.deepEqual(
      removed.map(({ digest }) => digest),
      [`sha256:${old}`],
    )
    assert.equal((await listImages(store)).length, 2)
    assert.deepEqual(await listImages(join(store, 'nothing')), [])
  } finally {
    rmSync(store, { recursive: true })
  }
})
