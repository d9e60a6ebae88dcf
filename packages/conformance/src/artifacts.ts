import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import type { Identity } from '@gantry/contract'
import type { ArtifactMaker, Artifacts } from '@gantry/core/internal/artifacts/artifact'

/** The artifact store under test. */
export interface ArtifactsSetup {
  readonly artifacts: Artifacts
  /** A call of this caller, which may make files. */
  maker(identity: Identity): Promise<ArtifactMaker>
}

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: [] }
const ann: Identity = { ...ada, principal: 'ann' }
// Of the same name as her victim, so that only the tenant tells them apart.
const eve: Identity = { ...ada, tenant: 'umbrella' }
const { signal } = new AbortController()
const file = (name: string, text: string) => ({ name, mimeType: 'text/plain', content: Buffer.from(text) })

/** The contract of Artifacts by title; every implementation runs all cases. */
export const testArtifacts: { readonly [title: string]: (setup: ArtifactsSetup) => Promise<void> } = {
  'a file is found and read in whole and in part, and the stored content is a copy': async (setup) => {
    const { artifacts } = setup
    const content = Buffer.from('hello world')
    const kept = await artifacts.put({ ...file('a.txt', ''), content }, await setup.maker(ada), signal)
    content.fill(0)
    assert.equal(kept.digest, `sha256:${hash('sha256', 'hello world')}`)
    const { createdAt, ...info } = await artifacts.info(kept.id, ada, signal)
    assert.deepEqual(info, kept)
    assert.equal(new Date(createdAt).toISOString(), createdAt)
    const read = async (start: number, end: number): Promise<string> =>
      Buffer.from((await artifacts.read(kept.id, ada, { start, end }, signal)).content).toString()
    assert.deepEqual([await read(0, 11), await read(6, 9), await read(6, 99)], ['hello world', 'wor', 'world'])
  },

  'a file of another tenant does not exist, and one of another principal of the tenant can be read but not removed':
    async (setup) => {
      const { artifacts } = setup
      const { id } = await artifacts.put(file('a.txt', 'mine'), await setup.maker(ada), signal)
      await artifacts.info(id, ann, signal)
      await assert.rejects(artifacts.remove(id, ann, signal), { code: 'DENIED' })
      await assert.rejects(artifacts.info(id, eve, signal), { code: 'NOT_FOUND' })
      await assert.rejects(artifacts.read(id, eve, { start: 0, end: 1 }, signal), { code: 'NOT_FOUND' })
      assert.equal(await artifacts.remove(id, eve, signal), false)
      assert.deepEqual((await artifacts.list({ limit: 10 }, eve, signal)).items, [])
      for (const made of [`art_${'0'.repeat(32)}`, '', "' or true --", '\0', '../x']) {
        await assert.rejects(artifacts.info(made, ada, signal), { code: 'NOT_FOUND' })
        assert.equal(await artifacts.remove(made, ada, signal), false)
      }
    },

  'a removed file no longer exists, and the same content under another id stays': async (setup) => {
    const { artifacts } = setup
    const maker = await setup.maker(ada)
    const one = await artifacts.put(file('a', 'same'), maker, signal)
    const two = await artifacts.put(file('b', 'same'), maker, signal)
    assert.equal(await artifacts.remove(one.id, ada, signal), true)
    assert.equal(await artifacts.remove(one.id, ada, signal), false)
    await assert.rejects(artifacts.info(one.id, ada, signal), { code: 'NOT_FOUND' })
    const { content } = await artifacts.read(two.id, ada, { start: 0, end: 4 }, signal)
    assert.equal(Buffer.from(content).toString(), 'same')
  },

  'a list returns the newest first, filtered by name prefix, in pages': async (setup) => {
    const { artifacts } = setup
    const maker = await setup.maker(ada)
    for (const name of ['p1', 'p%', 'q', 'p2', 'p_3']) await artifacts.put(file(name, name), maker, signal)
    const names: string[] = []
    let cursor: string | undefined
    do {
      const page = await artifacts.list({ prefix: 'p', cursor, limit: 2 }, ada, signal)
      names.push(...page.items.map(({ name }) => name))
      cursor = page.cursor
    } while (cursor !== undefined)
    assert.deepEqual(names, ['p_3', 'p2', 'p%', 'p1'])
    const literal = await artifacts.list({ prefix: 'p%', limit: 5 }, ada, signal)
    assert.deepEqual(
      literal.items.map(({ name }) => name),
      ['p%'],
    )
    await assert.rejects(artifacts.list({ cursor: 'made up', limit: 5 }, ada, signal), { code: 'INPUT_INVALID' })
  },
}
