import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ordinaryInfo, startFakeDocker } from '../engines/docker-server.fixture.ts'
import { pruneDocker } from './image-inventory.ts'

const signal = AbortSignal.timeout(20_000)

test('an engine whose OCI runtime is refused is pruned all the same', async () => {
  const Labels = { 'dev.gantry.owner': 'unknown' }
  const components = [{ Name: 'runc', Version: '1.0.0' }]
  const versions = { ApiVersion: '1.41', MinAPIVersion: '1.12', Components: components }
  const fake = await startFakeDocker({
    answers: {
      '/version': { status: 200, body: versions },
      '/info': { status: 200, body: ordinaryInfo },
      '/containers/json': { status: 200, body: [{ Id: 'c1', Labels }] },
      '/images/json': {
        status: 200,
        body: [{ Id: 'sha256:1', RepoTags: ['gantry/sandbox:standard-0123456789ab'], Size: 1, Created: 1 }],
      },
      '/images/sha256:1/json': { status: 200, body: {} },
      '/images/gantry%2Fsandbox%3Astandard-0123456789ab': { status: 200, body: [] },
    },
  })
  try {
    const { images, containers } = await pruneDocker({ kind: 'socket', path: fake.socket }, signal)
    assert.deepEqual([images.map(({ digest }) => digest), containers], [['sha256:1'], []])
  } finally {
    fake.stop()
  }
})
