import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkPackage, createPackageFromTarballData, type Problem } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { installed, root, tarballs } from './project.fixture.ts'

const files = globSync('*.tgz', { cwd: tarballs })

test('publint finds nothing to say about a package', async () => {
  const folders = globSync('node_modules/{gantry,@gantry/*}', { cwd: installed })
  assert.equal(folders.length, files.length)
  for (const folder of folders) {
    const { messages, pkg } = await publint({ pkgDir: join(installed, folder), pack: false, strict: true })
    assert.deepEqual(
      messages.map((message) => formatMessage(message, pkg, { color: false })),
      [],
      folder,
    )
  }
})

/** Packages are ES modules with `exports`: old resolvers do not find them, and CommonJS has to import them at run time. */
const ofEsmOnly = new Set<Problem['kind']>(['NoResolution', 'CJSResolvesToESM'])
const oldOrCommonJs = new Set(['node10', 'node16-cjs'])

test('arethetypeswrong finds the types of every public path of every package, by ES modules and by bundlers', async () => {
  for (const file of files) {
    const result = await checkPackage(createPackageFromTarballData(readFileSync(join(tarballs, file))))
    assert.ok(result.types, `${file} has no types`)
    const problems = result.problems.filter(
      (problem) =>
        !(ofEsmOnly.has(problem.kind) && 'resolutionKind' in problem && oldOrCommonJs.has(problem.resolutionKind)),
    )
    assert.deepEqual(problems, [], file)
  }
})

test('a source map leads from a published function to its line in the sources', () => {
  let compared = 0
  for (const map of globSync('node_modules/@gantry/{core,json-schema}/dist/**/*.js.map', { cwd: installed })) {
    const sourceMap = new SourceMap(JSON.parse(readFileSync(join(installed, map), 'utf8')))
    const [, name = '', path = ''] = /@gantry\/([a-z-]+)\/dist\/(.+)\.js\.map$/.exec(map) ?? []
    const source = readFileSync(join(root, 'packages', name, 'src', `${path}.ts`), 'utf8').split('\n')
    const code = readFileSync(join(installed, map.replace(/\.map$/, '')), 'utf8').split('\n')
    for (const [line, text] of code.entries()) {
      const [, declared] = /^(?:export )?((?:async )?function\*? \w+)\(/.exec(text) ?? []
      if (declared === undefined) continue
      const entry = sourceMap.findEntry(line, 0)
      assert.ok('originalLine' in entry, `${map}:${line + 1}`)
      assert.ok(source[entry.originalLine]?.includes(declared), `${map}:${line + 1}`)
      assert.equal(entry.originalSource.replace(/^(?:\.\.\/)+/, ''), `src/${path}.ts`)
      compared += 1
    }
  }
  assert.ok(compared > 500, `${compared} functions`)
})

test('a source map has the text of its source, but for @gantry/core, whose size is promised', () => {
  const texts = (name: string): unknown =>
    JSON.parse(readFileSync(join(installed, `node_modules/@gantry/${name}/dist/index.js.map`), 'utf8')).sourcesContent
  assert.deepEqual(texts('client'), [readFileSync(join(root, 'packages/client/src/index.ts'), 'utf8')])
  assert.equal(texts('core'), undefined)
})
