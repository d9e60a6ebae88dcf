import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { exportJWK, generateKeyPair, type JWTHeaderParameters, type JWTPayload, SignJWT } from 'jose'
import type { TokenIssuer } from '../../config/authentication-settings.ts'

/** An issuer of tokens with a server for its keys, closed with the test. */
export interface TestIssuer {
  readonly issuer: TokenIssuer
  /** The requests to its server, and its responses. */
  readonly asked: string[]
  readonly server: { status: number; body: string; location?: string }
  readonly url: string
  /** A valid token, except for the given claims. */
  token(claims?: JWTPayload, head?: Partial<JWTHeaderParameters>): Promise<string>
  /** The pair whose public key the server publishes. */
  readonly keys: Awaited<ReturnType<typeof generateKeyPair>>
}

export async function startIssuer(
  t: TestContext,
  given: Partial<TokenIssuer> = {},
  alg = 'RS256',
): Promise<TestIssuer> {
  const keys = await generateKeyPair(alg, { extractable: true })
  const jwk = { ...(await exportJWK(keys.publicKey)), kid: 'k1', alg, use: 'sig' }
  const asked: string[] = []
  const server: TestIssuer['server'] = { status: 200, body: JSON.stringify({ keys: [jwk] }) }
  const http = createServer((request, response) => {
    asked.push(request.url ?? '')
    const { status, body, location } = server
    response.writeHead(status, { 'content-type': 'application/json', ...(location === undefined ? {} : { location }) })
    response.end(body)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  t.after(() => new Promise((resolve) => http.close(resolve).closeAllConnections()))
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const issuer: TokenIssuer = {
    issuer: 'https://login.example.com/',
    name: 'login',
    audience: ['gantry'],
    algorithms: [alg],
    leewaySeconds: 30,
    keys: { url: `${url}/jwks` },
    claims: { principal: 'sub', tenant: 'tenant', roles: '/realm_access/roles', permissions: 'scope' },
    grants: ['files:*'],
    ...given,
  }
  return {
    issuer,
    asked,
    server,
    url,
    keys,
    token(claims = {}, head = {}) {
      const seconds = Math.floor(Date.now() / 1_000)
      const usual = {
        iss: issuer.issuer,
        aud: 'gantry',
        sub: 'alice',
        tenant: 'acme',
        iat: seconds,
        exp: seconds + 300,
      }
      const said = { realm_access: { roles: ['staff'] }, scope: 'files:read openid gantry:keys *' }
      return new SignJWT({ ...usual, ...said, ...claims })
        .setProtectedHeader({ alg, kid: 'k1', typ: 'JWT', ...head })
        .sign(keys.privateKey)
    },
  }
}
