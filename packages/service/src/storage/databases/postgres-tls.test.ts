import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Authority, makeAuthority } from '../../../../../scripts/engines/certificates.ts'
import { hasProgram } from '../../../../../scripts/engines/packages.ts'
import { type PostgresServer, startPostgres } from '../../../../../scripts/engines/postgres.ts'
import { failure } from '../../conformance/database.ts'
import { openPostgres } from './postgres.ts'

describe('TLS to a real server', { skip: !hasProgram('postgres') && 'PostgreSQL is not installed' }, () => {
  let [ours, theirs]: Authority[] = []
  let server: PostgresServer
  before(async () => {
    ours = makeAuthority()
    theirs = makeAuthority('Another authority')
    server = await startPostgres({ tls: ours.issue({ hosts: ['localhost', 'db.example.com'] }) })
  })
  after(async () => {
    await server.stop()
    ours?.remove()
    theirs?.remove()
  })
  const url = (host: string, parameters: { readonly [name: string]: string | undefined }): string => {
    const address = new URL(server.url)
    address.hostname = host
    for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value ?? '')
    return address.href
  }
  const secured = 'select ssl, version from pg_stat_ssl where pid = pg_backend_pid()'

  test('a server with a trusted certificate for its host is reached over TLS 1.2 or newer', async () => {
    for (const sslmode of ['verify-full', 'verify-ca', 'require']) {
      const database = await openPostgres({ url: url('localhost', { sslmode, sslrootcert: ours?.caFile }) })
      const [row] = await database.query(secured)
      assert.equal(row?.ssl, true)
      assert.match(String(row?.version), /^TLSv1\.[23]$/)
      const received = new Promise((resolve) =>
        database.listen('gantry_ready', resolve).then(() => database.query('notify gantry_ready')),
      )
      assert.equal(await received, '')
      const listening = await database.query(
        `select s.ssl from pg_stat_ssl s join pg_stat_activity a using (pid) where a.query like 'listen%'`,
      )
      assert.deepEqual(
        listening.map(({ ssl }) => ssl),
        [true],
      )
      await database.close()
    }
  })

  test('without TLS parameters, and with sslmode=disable, the connection is not encrypted', async () => {
    for (const parameters of [{}, { sslmode: 'disable' }]) {
      const database = await openPostgres({ url: url('127.0.0.1', parameters) })
      assert.equal((await database.query(secured))[0]?.ssl, false)
      await database.close()
    }
  })

  test('a server with an untrusted certificate or another host name is refused in every TLS mode', async () => {
    for (const sslmode of ['verify-full', 'verify-ca', 'require']) {
      const wrong = [
        url('localhost', { sslmode, sslrootcert: theirs?.caFile }),
        url('localhost', { sslmode }),
        url('127.0.0.1', { sslmode, sslrootcert: ours?.caFile }),
      ]
      for (const address of wrong) {
        const error = await failure(openPostgres({ url: address }))
        assert.equal(error.code, 'STORE_UNAVAILABLE')
        assert.match(error.message, /certificate that is not trusted, or not for its host/)
      }
    }
  })

  test('an sslmode that does not verify the server is CONFIG_INVALID, and so is a missing file', async () => {
    const wrong = [
      ...['no-verify', 'prefer', 'allow', 'nonsense'].map((sslmode) => ({ sslmode })),
      { ssl: 'no-verify' },
      { sslmode: 'disable', sslrootcert: ours?.caFile },
      { sslmode: 'verify-full', sslrootcert: '/nowhere.pem' },
      { sslrootcert: '/nowhere.pem' },
    ]
    for (const parameters of wrong) {
      const error = await failure(openPostgres({ url: url('localhost', parameters) }))
      assert.equal(error.code, 'CONFIG_INVALID', JSON.stringify(parameters))
    }
    const compatible = url('localhost', { sslmode: 'require', uselibpqcompat: 'true' })
    assert.equal((await failure(openPostgres({ url: compatible }))).code, 'STORE_UNAVAILABLE')
  })
})

test('a server without TLS is STORE_UNAVAILABLE when TLS is required', async (t) => {
  if (!hasProgram('postgres')) return t.skip('PostgreSQL is not installed')
  const server = await startPostgres()
  t.after(() => server.stop())
  assert.equal((await failure(openPostgres({ url: `${server.url}?sslmode=verify-full` }))).code, 'STORE_UNAVAILABLE')
})
