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
