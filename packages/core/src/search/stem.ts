const s = 115
const e = 101

/** Takes a plural or third-person `s` off an English word; wrong guesses do no harm, as queries are stemmed alike. */
export function stem(token: string): string {
  const length = token.length
  if (length < 4 || token.charCodeAt(length - 1) !== s) return token
  const before = token[length - 2]
  if (before === 's' || before === 'u' || before === 'i') return token
  if (token.charCodeAt(length - 2) !== e || length < 5) return token.slice(0, -1)
  if (token[length - 3] === 'i') return `${token.slice(0, -3)}y`
  return /(?:ss|x|ch|sh)es$/.test(token) ? token.slice(0, -2) : token.slice(0, -1)
}

const common: ReadonlySet<string> = new Set(
  'a an and are as at be by can for from has have how i if in into is it its me my of on or so that the their them then this to up use used want was what when which will with you your'.split(
    ' ',
  ),
)

/** Words that say nothing about a tool; they count in names but not in prose. */
export function isCommon(token: string): boolean {
  return token.length <= 5 && common.has(token)
}

const conversational: ReadonlySet<string> = new Set(
  'about also am any been but could did do doe doing each else every few give got had he her here him his just know let like may might more most much must need no not now off one only other our out over please she should some such tell than there these they those through too under us very we were where while who whom why would'.split(
    ' ',
  ),
)

/** Words of a conversation that say nothing about the tool that is wanted; names and keywords may hold them. */
export function isConversational(token: string): boolean {
  return token.length <= 7 && conversational.has(token)
}

/** What inflected forms of an English word share: without `ing`, `ed` and a final `e`. */
export function rootOf(token: string): string {
  if (token.length > 4 && token.endsWith('ied')) return `${token.slice(0, -3)}y`
  const bare = token.length > 5 && token.endsWith('ing') ? token.slice(0, -3) : withoutPast(token)
  if (bare === token) return withoutE(token)
  if (bare.length < 3 || !/[aeiouy]/.test(bare)) return withoutE(token)
  const doubled = bare.length > 3 && bare.at(-1) === bare.at(-2) && !/[lsz]$/.test(bare)
  return doubled ? bare.slice(0, -1) : withoutE(bare)
}

function withoutPast(token: string): string {
  return token.length > 4 && token.endsWith('ed') ? token.slice(0, -2) : token
}

function withoutE(token: string): string {
  return token.length > 4 && token.endsWith('e') ? token.slice(0, -1) : token
}
