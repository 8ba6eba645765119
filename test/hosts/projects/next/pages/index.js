export default function Page() {
  return 'a page of the host';
}
